"""Sockets to brokers: one question at a time, its answer read whole, versions agreed on when a connection opens.

L3   A question that must not be repeated is sent once: where its answer is lost, that is an error of its own.
L7   An answer larger than 128 MiB is refused before it is read.
A connection that broke is made anew once, because one that lay idle may have been closed by the other side. Anything
that ends an exchange early leaves the stream in the middle of an answer, so the connection goes with it.
Worst case: threads that share these connections wait for each other's answers, long polls too.
"""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.core.errors import CallerError, CorruptError, PenstockError, RetryError, fail
from penstock.protocol.apis import VERSIONS, ApiKey, KafkaError
from penstock.protocol.cluster import Address
from penstock.protocol.codec import decode
from penstock.protocol.frames import FrameReader, decode_response_header, request_frame
from penstock.protocol.messages import Request, Response
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.refusals import refusal

RESPONSE_BYTES_MAX = 128 * 1024 * 1024
ANY_VERSION = 2**15 - 1

_SOFTWARE_NAME, _SOFTWARE_VERSION = "penstock", "1"

AnyAnswer = TypeVar("AnyAnswer", bound=Response)


@dataclass(frozen=True, slots=True)
class Question(Generic[AnyAnswer]):
    """A request and the class of its answer. `wait_s` is how long the broker may hold the answer back on purpose.

    `once_for` names what the question is about where it must not be sent twice.
    """

    request: Request
    answer: type[AnyAnswer]
    wait_s: float = 0.0
    version_max: int = ANY_VERSION
    once_for: str | None = None


class Connections:
    """At most one connection for each broker, opened when it is first asked."""

    def __init__(self, *, client_id: str, timeout_s: float) -> None:
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._open: dict[Address, _Connection] = {}
        self._lock = threading.RLock()

    def close(self) -> None:
        with self._lock:
            for address in tuple(self._open):
                self._drop(address)

    def ask(self, address: Address, question: Question[AnyAnswer]) -> AnyAnswer:
        with self._lock:
            may_be_stale = address in self._open
            try:
                return self._exchange(address, question)
            except OSError as error:
                if question.once_for is not None:
                    raise _unconfirmed(question.once_for, error) from error
                if not may_be_stale:
                    raise _unreachable(address, error) from error
            try:
                return self._exchange(address, question)
            except OSError as error:
                raise _unreachable(address, error) from error

    def _exchange(self, address: Address, question: Question[AnyAnswer]) -> AnyAnswer:
        connection = self._open.get(address) or self._connect(address)
        is_done = False
        try:
            answer = connection.exchange(question)
            is_done = True
            return answer
        finally:
            if not is_done:
                self._drop(address)

    def _connect(self, address: Address) -> _Connection:
        try:
            made = _Connection(address, client_id=self._client_id, timeout_s=self._timeout_s)
        except OSError as error:
            raise _unreachable(address, error) from error
        self._open[address] = made
        return made

    def _drop(self, address: Address) -> None:
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()


class _Connection:
    def __init__(self, address: Address, *, client_id: str, timeout_s: float) -> None:
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._correlation_id = 0
        self._offered: dict[int, tuple[int, int]] | None = None
        self._reader = FrameReader(bytes_max=RESPONSE_BYTES_MAX)
        self._socket = socket.create_connection((address.host, address.port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._socket.close()

    def exchange(self, question: Question[AnyAnswer]) -> AnyAnswer:
        if self._offered is None:
            self._offered = self._ask_versions()
        version = _common_version(question.request.API, offered=self._offered, version_max=question.version_max)
        body = self._send(question.request, version=version, wait_s=question.wait_s)
        return decode(question.answer, version=version, buffer=body)

    def _send(self, request: Request, *, version: int, wait_s: float = 0.0) -> memoryview:
        """Send the request, and give the body of its response."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        frame = request_frame(request, version=version, correlation_id=self._correlation_id, client_id=self._client_id)
        self._socket.settimeout(self._timeout_s + wait_s)
        self._socket.sendall(b"".join(frame))
        response = self._receive()
        correlation_id, position = decode_response_header(request.API, version, response)
        if correlation_id != self._correlation_id:
            raise fail(CorruptError, "frame-malformed", what="response", reason="it answers another request")
        return response[position:]

    def _receive(self) -> memoryview:
        frames: list[memoryview] = []
        while not frames:
            count = self._socket.recv_into(self._reader.room())
            if count == 0:
                raise ConnectionError("the broker closed the connection")
            frames = self._reader.received(count)
        return frames[0]

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        """A broker that does not know our version of this question is asked in version 0, which every broker knows."""
        version = VERSIONS[ApiKey.API_VERSIONS].last
        question = ApiVersionsRequest(_SOFTWARE_NAME, _SOFTWARE_VERSION)
        body = self._send(question, version=version)
        if body[:2] == KafkaError.UNSUPPORTED_VERSION.to_bytes(2):
            version = 0
            body = self._send(question, version=version)
        answer = decode(ApiVersionsResponse, version=version, buffer=body)
        if answer.error_code:
            raise refusal(answer.error_code, subject="the question for versions")
        return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def _common_version(api: ApiKey, *, offered: dict[int, tuple[int, int]], version_max: int) -> int:
    ours, (first, last) = VERSIONS[api], offered.get(api, (0, -1))
    version = min(ours.last, last, version_max)
    if version < max(ours.first, first):
        raise fail(CallerError, "broker-versions-apart", api=api.name, first=first, last=last)
    return version


def _unreachable(address: Address, error: OSError) -> PenstockError:
    return fail(RetryError, "broker-unreachable", address=address, reason=error.strerror or str(error))


def _unconfirmed(subject: str, error: OSError) -> PenstockError:
    return fail(RetryError, "produce-unconfirmed", partition=subject, reason=error.strerror or str(error))
