"""The shape of a handler: which API it answers, the request it reads, the function that answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.broker.calls import Call
from penstock.broker.node import Node
from penstock.protocol.apis import VERSIONS, Versions
from penstock.protocol.codec import decode
from penstock.protocol.messages import Buffer, Request

AnyRequest = TypeVar("AnyRequest", bound=Request)


@dataclass(frozen=True, slots=True)
class Handler(Generic[AnyRequest]):
    """`answer` replies to the call at once, or leaves something behind in the node that will."""

    request: type[AnyRequest]
    answer: Callable[[Node, Call, AnyRequest], None]

    @property
    def versions(self) -> Versions:
        return VERSIONS[self.request.API]

    def run(self, node: Node, call: Call, body: Buffer) -> None:
        self.answer(node, call, decode(self.request, version=call.version, buffer=body))
