"""Messages of every version: our bytes are Kafka's bytes, and no bytes can hurt.

Two codecs that share no code with ours are the oracles: kafka-python reads what we wrote field by field and writes it
again, kio reads and writes it again. Values come from Hypothesis, by the types that the schemas name.
"""

from __future__ import annotations

import io
import struct
import tracemalloc
import uuid
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from penstock.core.errors import BugError, CallerError, CorruptError
from penstock.protocol.apis import VERSIONS, ApiKey, KafkaError
from penstock.protocol.codec import (
    decode,
    decode_request,
    encode,
    encode_response,
    joined,
    request_class,
    response_class,
)
from penstock.protocol.encoding import varint
from penstock.protocol.messages import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    LeaderIdAndEpoch,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from penstock.protocol.schema import Direction, Field, load_schema

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["", "ü" * 70, "\0", "𝄞"])
_BYTES = st.binary(max_size=20) | st.sampled_from([b"", b"x" * 127, b"y" * 20_000])
_ORACLE_MODULES = (kafka.protocol.admin, kafka.protocol.consumer, kafka.protocol.metadata, kafka.protocol.producer)

few = settings(
    max_examples=5,
    phases=[Phase.explicit, Phase.generate],
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def every_version() -> Iterator[Any]:
    """The class and version of every request and response that we speak."""
    for api in ApiKey:
        for version in range(VERSIONS[api].first, VERSIONS[api].last + 1):
            for kind in (request_class(api), response_class(api)):
                yield pytest.param(kind, version, id=f"{kind.__name__}-{version}")


EVERY_VERSION = list(every_version())


def direction_of(kind: type[Message]) -> Direction:
    schema = load_schema(kind.API.name.lower())
    return schema.request if kind.IS_REQUEST else schema.response


def fields_in(direction: Direction, *, struct_name: str, version: int) -> list[Field]:
    """The fields that the version carries, the tagged ones too."""
    fields = direction.structs[struct_name]
    return [f for f in fields if f.is_plain_in(version) or (version >= direction.flexible and f.is_tagged_in(version))]


def messages(kind: type[Message], *, version: int) -> st.SearchStrategy[Message]:
    direction = direction_of(kind)
    module = import_module(kind.__module__)

    def structs(name: str) -> st.SearchStrategy[Any]:
        fields = fields_in(direction, struct_name=name, version=version)
        return st.builds(getattr(module, name), **{field.name: values(field) for field in fields})

    def values(field: Field) -> st.SearchStrategy[Any]:
        found = structs(field.type) if field.is_struct else scalars(field)
        found = st.lists(found, max_size=3) if field.is_list else found
        return st.none() | found if version in field.null_versions else found

    return cast("st.SearchStrategy[Message]", structs(direction.message))


def scalars(field: Field) -> st.SearchStrategy[Any]:
    match field.type:
        case "bool":
            return st.booleans()
        case "string":
            return _TEXT
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "bytes" | "records":
            return _BYTES
        case _:
            return integers(field)


def integers(field: Field) -> st.SearchStrategy[int]:
    """Error codes and times stay within what the narrower oracle knows."""
    if field.name.endswith("error_code"):
        return st.sampled_from([int(error) for error in KafkaError])
    if field.name.endswith("_ms") or "timestamp" in field.name:
        return st.integers(0, 2**31 - 1)
    return st.integers(*_INTEGERS[field.type])


def written(message: Message, *, version: int) -> bytes:
    return b"".join(encode(message, version=version))


def oracle_class(kind: type[Message]) -> Any:
    return next(getattr(module, kind.__name__) for module in _ORACLE_MODULES if hasattr(module, kind.__name__))


def plain(value: Any) -> Any:
    """One form for what we and the oracle hold in different types."""
    if isinstance(value, memoryview):
        return bytes(value)
    return value.bytes if isinstance(value, uuid.UUID) else value


def assert_same_fields(ours: Any, theirs: Any, *, direction: Direction, struct_name: str, version: int) -> None:
    for field in fields_in(direction, struct_name=struct_name, version=version):
        if field.name.endswith("authorized_operations"):
            continue  # the oracle renames these, and shows them as sets of bits
        mine, other = getattr(ours, field.name), getattr(theirs, field.name)
        if not field.is_struct or mine is None:
            assert plain(mine) == plain(other), field.name
            continue
        pairs = zip(mine, other, strict=True) if field.is_list else [(mine, other)]
        for one, another in pairs:
            assert_same_fields(one, another, direction=direction, struct_name=field.type, version=version)


def check_with_kafka_python(message: Message, ours: bytes, *, version: int) -> None:
    theirs = oracle_class(type(message)).decode(ours, version=version)
    direction = direction_of(type(message))
    assert_same_fields(message, theirs, direction=direction, struct_name=direction.message, version=version)
    theirs._header = None  # its decoder leaves this unset, and its encoder looks at it
    assert theirs.encode(version=version) == ours


def check_with_kio(message: Message, ours: bytes, *, version: int) -> None:
    direction = "request" if message.IS_REQUEST else "response"
    module = import_module(f"kio.schema.{message.API.name.lower()}.v{version}.{direction}")
    entity = getattr(module, type(message).__name__)
    read, size = entity_reader(entity)(ours, 0)
    again = io.BytesIO()
    entity_writer(entity)(again, read)
    assert (size, again.getvalue()) == (len(ours), ours)


@pytest.mark.parametrize(("kind", "version"), EVERY_VERSION)
@given(data=st.data())
@few
def test_kafka_python_and_kio_read_what_we_wrote_and_write_the_same_bytes_and_we_read_it_back(
    kind: type[Message], version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(kind, version=version))
    if isinstance(message, ApiVersionsResponse):
        message.error_code = 0  # with an error kafka-python rightly reads version 0
    ours = written(message, version=version)
    check_with_kafka_python(message, ours, version=version)
    check_with_kio(message, ours, version=version)
    assert decode(kind, version=version, buffer=ours) == message


@pytest.mark.parametrize(("kind", "version"), EVERY_VERSION)
@given(data=st.data())
@few
def test_l7_a_frame_cut_anywhere_is_refused_and_any_bytes_give_a_message_or_a_typed_error(
    kind: type[Message], version: int, data: st.DataObject
) -> None:
    """Noise alone, and a good message with some bytes replaced by noise, which reaches deeper."""
    whole = bytearray(written(data.draw(messages(kind, version=version)), version=version))
    if whole:
        with pytest.raises(CorruptError, match="frame-malformed"):
            decode(kind, version=version, buffer=whole[: data.draw(st.integers(0, len(whole) - 1))])
    noise = data.draw(st.binary(max_size=200))
    at = data.draw(st.integers(0, len(whole)))
    whole[at : at + len(noise) // 8] = noise[: len(noise) // 8]
    for buffer in (noise, whole):
        with suppress(CorruptError):
            decode(kind, version=version, buffer=buffer)


@pytest.mark.parametrize("claim", [2**31 - 1, 2**24, 1_000])
def test_l7_a_list_that_claims_more_than_the_frame_holds_allocates_nothing(claim: int) -> None:
    old = struct.pack(">iiiibi", -1, 0, 0, 0, 0, claim)
    compact = struct.pack(">iiibii", 0, 0, 0, 0, 0, -1) + varint(claim + 1)
    tracemalloc.start()
    try:
        for version, body in ((4, old), (15, compact)):
            with pytest.raises(CorruptError, match="topics passes the end"):
                decode(FetchRequest, version=version, buffer=body)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_l7_a_number_longer_than_five_bytes_is_refused() -> None:
    with pytest.raises(CorruptError, match="longer than five bytes"):
        decode(ApiVersionsRequest, version=3, buffer=b"\xff" * 5 + b"\x01" * 10)


def test_text_that_is_not_utf8_is_malformed() -> None:
    with pytest.raises(CorruptError, match="frame-malformed"):
        decode(ApiVersionsRequest, version=3, buffer=b"\x02\xff\x01\x00")


def test_bytes_behind_a_request_are_malformed_and_behind_a_response_passed_over() -> None:
    assert decode(ApiVersionsResponse, version=0, buffer=bytes(6) + b"x") == ApiVersionsResponse()
    with pytest.raises(CorruptError, match="1 bytes follow it"):
        decode(ApiVersionsRequest, version=0, buffer=b"x")


def test_a_null_that_the_version_does_not_know_is_malformed() -> None:
    assert decode(MetadataRequest, version=1, buffer=struct.pack(">i", -1)).topics is None
    with pytest.raises(CorruptError, match="topics is null"):
        decode(MetadataRequest, version=0, buffer=struct.pack(">i", -1))


@given(tags=st.lists(st.tuples(st.integers(4, 2**31), st.binary(max_size=200)), max_size=5))
@few
def test_unknown_tagged_fields_are_skipped_wherever_they_stand(tags: list[tuple[int, bytes]]) -> None:
    unknown = b"".join(varint(tag) + varint(len(content)) + content for tag, content in tags)
    cluster = varint(0) + varint(3) + b"\x03hi"
    body = struct.pack(">iiibii", 1, 2, 3, 0, 0, -1) + b"\x01\x01\x01" + varint(len(tags) + 1) + cluster + unknown
    request = decode(FetchRequest, version=15, buffer=body)
    assert (request.cluster_id, request.max_wait_ms) == ("hi", 1)
    topic = b"\x02" + bytes(16) + b"\x02a" + varint(len(tags)) + unknown
    metadata = decode(MetadataRequest, version=12, buffer=topic + b"\x01\x00" + varint(len(tags)) + unknown)
    assert metadata.topics == [MetadataRequestTopic(name="a")]


def test_a_tagged_field_whose_size_is_a_lie_is_malformed() -> None:
    body = struct.pack(">iiibii", 1, 2, 3, 0, 0, -1) + b"\x01\x01\x01" + b"\x01" + b"\x00\x04\x03hi!"
    with pytest.raises(CorruptError, match="has not the size it claims"):
        decode(FetchRequest, version=15, buffer=body)


def test_tagged_fields_ascend_and_defaults_are_left_out() -> None:
    response = FetchResponse(
        responses=[
            FetchResponseTopic("t", partitions=[FetchResponsePartition(current_leader=LeaderIdAndEpoch(1, 2))]),
        ]
    )
    partition = struct.pack(">ihqqq", 0, 0, 0, -1, -1) + b"\x01" + struct.pack(">i", -1) + b"\x01"
    leader = b"\x01" + b"\x01\x09" + struct.pack(">ii", 1, 2) + b"\x00"
    expected = struct.pack(">ihi", 0, 0, 0) + b"\x02\x02t\x02" + partition + leader + b"\x00\x00"
    assert written(response, version=12) == expected


def test_records_are_read_as_a_view_of_the_frame_and_written_as_the_buffers_they_came_in() -> None:
    request = ProduceRequest(
        topic_data=[ProduceRequestTopic("t", partition_data=[ProduceRequestPartition(0, b"batch")])]
    )
    frame = bytearray(written(request, version=9))
    records = decode(ProduceRequest, version=9, buffer=frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    first, second = b"one", memoryview(b"two")
    partition = FetchResponsePartition(records=[first, second])
    buffers = encode_response(
        ApiKey.FETCH, 12, FetchResponse(responses=[FetchResponseTopic("t", partitions=[partition])])
    )
    assert any(buffer is first for buffer in buffers)
    assert any(buffer is second for buffer in buffers)


def test_joined_copies_only_when_there_are_several_buffers() -> None:
    one = b"abc"
    assert joined(one).obj is one
    assert bytes(joined([b"ab", b"c"])) == b"abc"
    assert bytes(joined(None)) == b""


def test_a_message_with_a_value_that_does_not_fit_is_our_own_fault() -> None:
    with pytest.raises(BugError, match="FetchRequest version 4"):
        encode(FetchRequest(max_wait_ms=2**31), version=4)
    with pytest.raises(BugError, match="expected FetchResponse"):
        encode_response(ApiKey.FETCH, 4, cast("Any", FetchRequest()))


def test_a_version_that_we_do_not_speak_is_refused_by_name() -> None:
    with pytest.raises(CallerError, match="api 1 has no version 3 here"):
        decode_request(ApiKey.FETCH, 3, b"")
    with pytest.raises(CallerError, match="api-version-unsupported"):
        decode_request(4711, 0, b"")
