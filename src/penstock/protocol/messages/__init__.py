"""Kafka's messages as plain values: one module for each API, one class for each message, all versions in one class.

The modules are made from `schemas/*.json` by `tools/messages.py`. A field that a version does not have keeps its
default when it is read, and is left out when it is written. The classes are not frozen: a broker makes several for
every request, and frozen ones cost four times as much to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from penstock.protocol.apis import ApiKey

Buffer = bytes | bytearray | memoryview

Records = Buffer | Sequence[Buffer]
"""Record batches: read as one memoryview, written from one buffer or several."""

NO_UUID = bytes(16)


class Message:
    """A request or a response; `API` tells of which."""

    __slots__ = ()
    API: ClassVar[ApiKey]
    IS_REQUEST: ClassVar[bool]


class Request(Message):
    __slots__ = ()
    IS_REQUEST = True


class Response(Message):
    __slots__ = ()
    IS_REQUEST = False
