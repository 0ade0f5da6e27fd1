"""The schemas, the version table and the message classes say the same; types that no message of today has work too."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from penstock.core.errors import BugError
from penstock.protocol.apis import VERSIONS, ApiKey, KafkaError, accepts, error_name
from penstock.protocol.decoding import DecoderSource, skip_tags, varint_tail
from penstock.protocol.encoding import EncoderSource, varint
from penstock.protocol.schema import load_schema, parse_schema
from penstock.protocol.source import FunctionSource

TOOL = Path(__file__).parents[3] / "tools" / "messages.py"


@pytest.mark.parametrize("api", list(ApiKey))
def test_the_version_table_is_that_of_the_schema(api: ApiKey) -> None:
    schema, versions = load_schema(api.name.lower()), VERSIONS[api]
    assert (schema.key, schema.flexible) == (api, versions.flexible)
    assert schema.versions == range(versions.first, versions.last + 1)


def test_only_produce_claims_more_than_it_accepts() -> None:
    claimed = [api for api, versions in VERSIONS.items() if versions.advertised_first != versions.first]
    assert claimed == [ApiKey.PRODUCE]
    assert not accepts(ApiKey.PRODUCE, 2)


def test_error_codes_have_kafkas_numbers_and_retriability() -> None:
    for error in KafkaError:
        theirs = ErrorCode(int(error))
        assert theirs.name == error.name.lower()
        assert theirs.retriable == error.is_retriable, error
    assert error_name(12_345) == "12345"


def test_the_message_classes_are_what_the_tool_writes_from_the_schemas() -> None:
    spec = importlib.util.spec_from_file_location("messages_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.stale_files() == []


EVERY_TYPE = """
{"key": 0, "versions": "0-2", "flexible": 2, "response": {"R": ["x: int8"]}, "request": {"Q": [
  "flag: bool = true", "small: int8", "short: uint16", "word: uint32", "real: float64 = 1.5", "id: uuid",
  "data: bytes?", "names: string[]", "ids: uuid[]", "place: Place? 1+ = null", "spot: Place? 2 tag 3 = null",
  "extra: int32[] 2 tag 1"],
  "Place": ["x: int8", "name: string"]}}
"""


class Struct:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return 0


def run(source: FunctionSource, name: str) -> Any:
    scope: dict[str, Any] = {
        **source.structs, "Q": Struct, "Place": Struct, "varint": varint, "varint_tail": varint_tail,
        "skip_tags": skip_tags, "pack": struct.pack, "unpack_from": struct.unpack_from, "NO_UUID": bytes(16),
    }  # fmt: skip
    exec(source.text(), scope)
    return scope[name]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("place", [None, Struct(x=-3, name="here")])
def test_every_type_there_is_can_be_written_and_read(version: int, place: Struct | None) -> None:
    request = parse_schema(EVERY_TYPE).request
    values: dict[str, Any] = {
        "flag": False, "small": -1, "short": 65_535, "word": 2**32 - 1, "real": -0.5, "id": bytes(range(16)),
        "data": None if place is None else b"abc", "names": ["a", ""], "ids": [b"i" * 16],
    }  # fmt: skip
    if version >= 1:
        values["place"] = place
    if version == 2:
        values |= {"spot": place, "extra": [1, 2]}
    message = Struct(**values)
    body = b"".join(run(EncoderSource(request, version).write(), "encode")(message))
    assert run(DecoderSource(request, version).write(), "decode")(memoryview(body), 0) == (message, len(body))


def test_a_struct_that_may_be_null_has_a_byte_in_front_in_both_encodings() -> None:
    request = parse_schema(
        '{"key": 0, "versions": "0-1", "flexible": 1, "response": {"R": []}, '
        '"request": {"Q": ["place: Place?"], "Place": ["x: int16"]}}'
    ).request
    for version, tags in ((0, b""), (1, b"\0")):
        encode = run(EncoderSource(request, version).write(), "encode")
        assert b"".join(encode(Struct(place=None))) == b"\xff" + tags
        assert b"".join(encode(Struct(place=Struct(x=5)))) == b"\x01\0\x05" + tags + tags


def test_a_line_that_is_no_field_is_refused() -> None:
    with pytest.raises(BugError, match="a schema line"):
        parse_schema(EVERY_TYPE.replace("small: int8", "small int8"))
