"""Encode and decode Kafka's messages, in every version that we speak.

Messages are the plain classes of `messages/`; how they lie on the wire is data, in the form that `schema.py` describes.
From it `decoding.py` and `encoding.py` write one flat function for each message and version, made on its first use,
so that a start pays for nothing it does not use.

    request = decode(FetchRequest, version=12, buffer=body)
    buffers = encode(FetchResponse(session_id=0), version=12)

L7   Malformed input raises `CorruptError` "frame-malformed" before anything is allocated for what it claims.
What follows a request in its frame is malformed too; behind a response it is passed over, as all clients do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TypeVar, cast

from penstock.core.errors import BugError, CallerError, CorruptError, fail
from penstock.protocol.apis import ApiKey, accepts
from penstock.protocol.decoding import DecoderSource, skip_tags, varint_tail
from penstock.protocol.encoding import EncoderSource, varint
from penstock.protocol.messages import NO_UUID, Buffer, Message, Records, Request, Response
from penstock.protocol.schema import Direction, load_schema
from penstock.protocol.source import FunctionSource

AnyMessage = TypeVar("AnyMessage", bound=Message)

_Decoder = Callable[[memoryview, int], tuple[Message, int]]
_Encoder = Callable[[Message], list[Buffer]]
_DECODERS: dict[tuple[type[Message], int], _Decoder] = {}
_ENCODERS: dict[tuple[type[Message], int], _Encoder] = {}
_MALFORMED = (ValueError, IndexError, struct.error)
_UNENCODABLE = (ValueError, TypeError, AttributeError, struct.error)


def decode(kind: type[AnyMessage], *, version: int, buffer: Buffer) -> AnyMessage:
    """Read `buffer` as one message of this class."""
    view = memoryview(buffer)
    try:
        message, end = (_DECODERS.get((kind, version)) or _make_decoder(kind, version))(view, 0)
    except _MALFORMED as error:
        raise _malformed(kind, version, str(error)) from error
    if end != len(view) and kind.IS_REQUEST:
        raise _malformed(kind, version, f"{len(view) - end} bytes follow it")
    return cast("AnyMessage", message)


def encode(message: Message, *, version: int) -> list[Buffer]:
    """The buffers of the message, in the order in which they are sent."""
    try:
        return (_ENCODERS.get((type(message), version)) or _make_encoder(type(message), version))(message)
    except _UNENCODABLE as error:
        what = f"{type(message).__name__} version {version}"
        raise fail(BugError, "message-unencodable", what=what, reason=str(error)) from error


def decode_request(key: int, version: int, buffer: Buffer) -> Request:
    return decode(request_class(_api(key, version)), version=version, buffer=buffer)


def decode_response(key: int, version: int, buffer: Buffer) -> Response:
    return decode(response_class(_api(key, version)), version=version, buffer=buffer)


def encode_request(key: int, version: int, message: Request) -> list[Buffer]:
    return _encode_as(request_class(_api(key, version)), version, message)


def encode_response(key: int, version: int, message: Response) -> list[Buffer]:
    return _encode_as(response_class(_api(key, version)), version, message)


@cache
def request_class(api: ApiKey) -> type[Request]:
    return cast("type[Request]", getattr(_module(api), load_schema(_name(api)).request.message))


@cache
def response_class(api: ApiKey) -> type[Response]:
    return cast("type[Response]", getattr(_module(api), load_schema(_name(api)).response.message))


def joined(records: Records | None) -> memoryview:
    """Record batches as one view, without a copy where they are one buffer already; null is none.

    >>> bytes(joined([b"ab", b"c"]))
    b'abc'
    """
    views = _buffers(records or b"")
    return memoryview(views[0] if len(views) == 1 else b"".join(views))


def _encode_as(kind: type[Message], version: int, message: Message) -> list[Buffer]:
    if type(message) is not kind:
        raise fail(BugError, "message-unencodable", what=type(message).__name__, reason=f"expected {kind.__name__}")
    return encode(message, version=version)


def _buffers(records: Records) -> list[Buffer]:
    return [records] if isinstance(records, bytes | bytearray | memoryview) else list(records)


def _malformed(kind: type[Message], version: int, reason: str) -> Exception:
    return fail(CorruptError, "frame-malformed", what=f"{kind.__name__} version {version}", reason=reason)


def _api(key: int, version: int) -> ApiKey:
    if not accepts(key, version):
        raise fail(CallerError, "api-version-unsupported", key=key, version=version)
    return ApiKey(key)


def _name(api: ApiKey) -> str:
    return api.name.lower()


def _module(api: ApiKey) -> object:
    return import_module(f"penstock.protocol.messages.{_name(api)}")


def _make_decoder(kind: type[Message], version: int) -> _Decoder:
    source = DecoderSource(*_layout(kind, version)).write()
    made = _DECODERS[kind, version] = cast("_Decoder", _compile(source, kind, "decode"))
    return made


def _make_encoder(kind: type[Message], version: int) -> _Encoder:
    source = EncoderSource(*_layout(kind, version)).write()
    made = _ENCODERS[kind, version] = cast("_Encoder", _compile(source, kind, "encode"))
    return made


def _layout(kind: type[Message], version: int) -> tuple[Direction, int]:
    schema = load_schema(_name(_api(kind.API, version)))
    return (schema.request if kind.IS_REQUEST else schema.response), version


def _compile(source: FunctionSource, kind: type[Message], name: str) -> object:
    """Run our own generated text. Nothing in it comes from outside: schemas are files of this package."""
    scope: dict[str, object] = {
        **vars(_module(kind.API)),
        **source.structs,
        "NO_UUID": NO_UUID,
        "unpack_from": struct.unpack_from,
        "pack": struct.pack,
        "varint": varint,
        "varint_tail": varint_tail,
        "skip_tags": skip_tags,
        "buffers": _buffers,
    }
    exec(compile(source.text(), f"<{name} {kind.__name__}>", "exec"), scope)  # noqa: S102
    return scope[name]
