"""Frames and headers: byte for byte, in any cut of the stream, and never more than the cap."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.api_header import RequestHeader as KafkaPythonHeader

from penstock.core.errors import CallerError, CorruptError
from penstock.protocol.apis import ApiKey
from penstock.protocol.frames import (
    FrameReader,
    RequestHeader,
    decode_request_header,
    decode_response_header,
    request_frame,
    response_frame,
)
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse

KIB = 1024


@pytest.mark.parametrize("client_id", ["me", "", None, "ünï"])
@pytest.mark.parametrize(("version", "flexible"), [(8, False), (9, True)])
def test_request_headers_are_those_of_kafka_python(client_id: str | None, version: int, *, flexible: bool) -> None:
    theirs = KafkaPythonHeader(
        request_api_key=3, request_api_version=version, correlation_id=77, client_id=client_id
    ).encode(flexible=flexible)
    frame = b"".join(request_frame(MetadataRequest(), version=version, correlation_id=77, client_id=client_id))
    assert frame[:4] == struct.pack(">i", len(frame) - 4)
    assert frame[4 : 4 + len(theirs)] == theirs
    assert decode_request_header(frame[4:]) == (RequestHeader(3, version, 77, client_id), len(theirs))


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    header = struct.pack(">hhih", 3, 9, 5, 1) + b"x" + b"\x02\x00\x03abc\x07\x00" + b"body"
    assert decode_request_header(header) == (RequestHeader(3, 9, 5, "x"), len(header) - 4)


def test_of_an_unknown_version_only_what_is_needed_to_answer_is_read() -> None:
    header = struct.pack(">hhi", ApiKey.API_VERSIONS, 99, 5)
    assert decode_request_header(header + b"\xff\xff\xffgarbage") == (RequestHeader(18, 99, 5, None), 8)
    assert decode_request_header(struct.pack(">hhi", 4711, 0, 6)) == (RequestHeader(4711, 0, 6, None), 8)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\0\3\0\1\0\0\0",
        struct.pack(">hhih", 3, 1, 5, 4) + b"abc",
        struct.pack(">hhih", 3, 1, 5, 2) + b"\xff\xfe",
        struct.pack(">hhih", 3, 9, 5, -1),
        struct.pack(">hhih", 3, 9, 5, -1) + b"\x01\x00\x7f",
        struct.pack(">hhih", 3, 9, 5, -1) + b"\xff\xff\xff\xff\xff\x01",
    ],
)
def test_l7_a_malformed_header_raises_a_typed_error(header: bytes) -> None:
    with pytest.raises(CorruptError, match="request header is malformed"):
        decode_request_header(header)


def test_the_header_of_an_api_versions_response_never_has_tagged_fields() -> None:
    assert b"".join(response_frame(ApiVersionsResponse(), version=3, correlation_id=1))[4:10] == b"\0\0\0\1\0\0"
    assert decode_response_header(ApiKey.API_VERSIONS, 3, b"\0\0\0\1rest") == (1, 4)


def test_the_header_of_other_flexible_responses_has_tagged_fields() -> None:
    assert b"".join(response_frame(MetadataResponse(), version=9, correlation_id=1))[4:9] == b"\0\0\0\1\0"
    assert b"".join(response_frame(MetadataResponse(), version=8, correlation_id=1))[4:12] == b"\0\0\0\1\0\0\0\0"
    assert decode_response_header(ApiKey.METADATA, 9, b"\0\0\0\1\1\5\1xrest") == (1, 8)
    assert decode_response_header(ApiKey.METADATA, 8, b"\0\0\0\1rest") == (1, 4)
    with pytest.raises(CorruptError, match="response header"):
        decode_response_header(ApiKey.METADATA, 9, b"\0\0\0\1")


def received(stream: bytes, *, reader: FrameReader, chunk: int) -> list[bytes]:
    frames = []
    position = 0
    while position < len(stream):
        room = reader.room()
        part = stream[position : position + min(chunk, len(room))]
        room[: len(part)] = part
        frames += reader.received(len(part))
        position += len(part)
    return [bytes(frame) for frame in frames]


@given(
    sizes=st.lists(st.sampled_from([0, 1, 5, 100, 64 * KIB - 5, 64 * KIB - 4, 64 * KIB, 200 * KIB]), max_size=6),
    chunk=st.sampled_from([7, 1_000, 64 * KIB, 10**9]),
)
@settings(max_examples=40, deadline=None)
def test_frames_are_cut_from_any_pieces_of_the_stream(sizes: list[int], chunk: int) -> None:
    bodies = [bytes([n + 1]) * size for n, size in enumerate(sizes)]
    reader = FrameReader()
    stream = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    assert received(stream, reader=reader, chunk=chunk) == bodies
    assert reader.is_between_frames


def test_frames_stay_as_they_were_while_later_ones_arrive() -> None:
    reader = FrameReader()
    room = reader.room()
    room[:6] = b"\0\0\0\2hi"
    (first,) = reader.received(6)
    room = reader.room()
    room[:6] = b"\0\0\0\2yo"
    (second,) = reader.received(6)
    assert (bytes(first), bytes(second)) == (b"hi", b"yo")


@pytest.mark.parametrize(
    ("stream", "whole"), [(b"", True), (b"\0\0", False), (b"\0\0\0\1", False), (b"\0\0\0\1x", True)]
)
def test_a_stream_that_ends_inside_a_frame_is_told(stream: bytes, *, whole: bool) -> None:
    reader = FrameReader()
    received(stream, reader=reader, chunk=9)
    assert reader.is_between_frames == whole


def test_l7_a_frame_over_the_cap_is_refused_at_its_size() -> None:
    with pytest.raises(CallerError, match="1001 bytes is larger than the 1000"):
        received(struct.pack(">i", 1_001), reader=FrameReader(bytes_max=1_000), chunk=9)
    assert received(struct.pack(">i", 1_000) + bytes(1_000), reader=FrameReader(bytes_max=1_000), chunk=9) != []


def test_a_negative_size_is_malformed() -> None:
    with pytest.raises(CorruptError, match="its size is -1"):
        received(b"\xff\xff\xff\xff", reader=FrameReader(), chunk=9)


def test_l7_a_long_frame_takes_memory_as_it_arrives() -> None:
    reader = FrameReader()
    received(struct.pack(">i", 90_000 * KIB) + bytes(60 * KIB), reader=reader, chunk=64 * KIB)
    assert len(reader.room()) < 4 * 64 * KIB
    received(bytes(500 * KIB), reader=reader, chunk=64 * KIB)
    assert len(reader.room()) <= 4 * 560 * KIB


def test_a_client_says_who_it_is_with_the_versions_it_asks_for() -> None:
    frame = b"".join(request_frame(ApiVersionsRequest("p", "1"), version=3, correlation_id=1, client_id="c"))
    assert frame == struct.pack(">ihhih", 17, 18, 3, 1, 1) + b"c\0" + b"\x02p\x021\0"
