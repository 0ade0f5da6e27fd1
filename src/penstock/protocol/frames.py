"""Frames: the size in front of every message, and the headers of requests and responses.

A frame is a 4-byte size and that many bytes: a header, then the body. A request's header is api key, version,
correlation id and client id, in flexible versions also tagged fields; the client id keeps the old string encoding for
ever. A response's header is the correlation id, in flexible versions also tagged fields. That of ApiVersions never has
any, because a client must be able to read this answer before the two sides agreed on anything.

L7   A frame longer than the cap is refused at its size. While a long frame arrives, 64 KiB or four times what has come
     is held for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.core.errors import CallerError, CorruptError, fail
from penstock.protocol.apis import VERSIONS, ApiKey, accepts
from penstock.protocol.codec import encode
from penstock.protocol.decoding import read_varint, skip_tags
from penstock.protocol.messages import Buffer, Request, Response

FRAME_BYTES_MAX = 100 * 1024 * 1024
"""Kafka's own default for the largest request."""

_SIZE = struct.Struct(">i")
_REQUEST_HEAD = struct.Struct(">hhi")
_CLIENT_ID_LENGTH = struct.Struct(">h")
_CORRELATION_ID = struct.Struct(">i")
_MALFORMED = (IndexError, ValueError, struct.error)
_SCRATCH_BYTES = 64 * 1024
_GROWTH = 4
_NO_TAGS = b"\x00"


@dataclass(frozen=True, slots=True)
class RequestHeader:
    key: int
    version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request and the position of its body.

    Of a key or version that we do not speak only the first eight bytes are read: where the rest lies is unknown then,
    and they are enough to answer with.
    """
    view = memoryview(buffer)
    try:
        key, version, correlation_id = _REQUEST_HEAD.unpack_from(view, 0)
        if not accepts(key, version):
            return RequestHeader(key, version, correlation_id, None), _REQUEST_HEAD.size
        client_id, position = _client_id(view, _REQUEST_HEAD.size)
        if VERSIONS[ApiKey(key)].is_flexible(version):
            position = _skip_tags(view, position)
    except _MALFORMED as error:
        raise _malformed("request header", str(error)) from error
    return RequestHeader(key, version, correlation_id, client_id), position


def decode_response_header(key: int, version: int, buffer: Buffer) -> tuple[int, int]:
    """The correlation id of a response and the position of its body."""
    view = memoryview(buffer)
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(view, 0)
        position = _CORRELATION_ID.size
        if _response_has_tags(key, version):
            position = _skip_tags(view, position)
    except _MALFORMED as error:
        raise _malformed("response header", str(error)) from error
    return correlation_id, position


def request_frame(message: Request, *, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """The buffers of a whole request, its size in front."""
    head = bytearray(_REQUEST_HEAD.pack(message.API, version, correlation_id))
    name = None if client_id is None else client_id.encode()
    head += _CLIENT_ID_LENGTH.pack(-1 if name is None else len(name)) + (name or b"")
    if VERSIONS[message.API].is_flexible(version):
        head += _NO_TAGS
    return _framed(head, encode(message, version=version))


def response_frame(message: Response, *, version: int, correlation_id: int) -> list[Buffer]:
    """The buffers of a whole response, its size in front."""
    head = bytearray(_CORRELATION_ID.pack(correlation_id))
    if _response_has_tags(message.API, version):
        head += _NO_TAGS
    return _framed(head, encode(message, version=version))


def _response_has_tags(key: int, version: int) -> bool:
    return key != ApiKey.API_VERSIONS and VERSIONS[ApiKey(key)].is_flexible(version)


def _framed(head: bytearray, body: list[Buffer]) -> list[Buffer]:
    head += body[0]
    size = len(head) + sum(len(buffer) for buffer in body[1:])
    return [_SIZE.pack(size) + head, *body[1:]]


def _client_id(view: memoryview, position: int) -> tuple[str | None, int]:
    (length,) = _CLIENT_ID_LENGTH.unpack_from(view, position)
    position += _CLIENT_ID_LENGTH.size
    if length < 0:
        return None, position
    end = position + length
    if end > len(view):
        raise ValueError("the client id passes the end")
    return str(view[position:end], "utf-8"), end


def _skip_tags(view: memoryview, position: int) -> int:
    number, position = read_varint(view, position)
    return skip_tags(view, position, number)


def _malformed(what: str, reason: str) -> Exception:
    return fail(CorruptError, "frame-malformed", what=what, reason=reason)


class FrameReader:
    """Cut a stream of bytes into frames, without a copy of long ones.

    The caller reads into `room()` and says how much came:

    >>> reader = FrameReader()
    >>> room = reader.room()
    >>> room[:7] = bytes([0, 0, 0, 2]) + b"hi" + bytes([0])
    >>> [bytes(frame) for frame in reader.received(7)]
    [b'hi']

    Frames come without their size. They stay valid, each has memory of its own.
    """

    def __init__(self, *, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._filled = 0
        self._frame: bytearray | None = None
        self._frame_filled = 0
        self._frame_size = 0

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream may end here without cutting a frame."""
        return self._frame is None and self._filled == 0

    def room(self) -> memoryview:
        """Where the next bytes of the stream belong; valid until the next call."""
        if self._frame is None:
            return memoryview(self._scratch)[self._filled :]
        if self._frame_filled == len(self._frame):
            self._frame = self._grown(self._frame)
        return memoryview(self._frame)[self._frame_filled :]

    def received(self, count: int) -> list[memoryview]:
        """Take note of `count` bytes in the room that was given; the frames that are whole now."""
        if self._frame is None:
            self._filled += count
            return list(self._cut())
        self._frame_filled += count
        if self._frame_filled < self._frame_size:
            return []
        frame, self._frame = self._frame, None
        return [memoryview(frame)]

    def _grown(self, frame: bytearray) -> bytearray:
        """A larger copy, because a buffer that a view was given of cannot change its size."""
        larger = bytearray(min(self._frame_size, _GROWTH * len(frame)))
        larger[: len(frame)] = frame
        return larger

    def _cut(self) -> Iterator[memoryview]:
        position = 0
        while self._filled - position >= _SIZE.size:
            size = self._checked_size(position)
            start, end = position + _SIZE.size, position + _SIZE.size + size
            if end > self._filled:
                if size > _SCRATCH_BYTES - _SIZE.size:
                    self._begin(size, self._scratch[start : self._filled])
                    return
                break
            yield memoryview(bytes(self._scratch[start:end]))
            position = end
        self._keep_from(position)

    def _checked_size(self, position: int) -> int:
        size: int = _SIZE.unpack_from(self._scratch, position)[0]
        if size < 0:
            raise _malformed("frame", f"its size is {size}")
        if size > self._bytes_max:
            raise fail(CallerError, "frame-too-large", size=size, bytes_max=self._bytes_max)
        return size

    def _begin(self, size: int, arrived: bytearray) -> None:
        self._frame = bytearray(min(size, max(_SCRATCH_BYTES, _GROWTH * len(arrived))))
        self._frame[: len(arrived)] = arrived
        self._frame_filled = len(arrived)
        self._frame_size = size
        self._filled = 0

    def _keep_from(self, position: int) -> None:
        rest = self._scratch[position : self._filled]
        self._scratch[: len(rest)] = rest
        self._filled = len(rest)
