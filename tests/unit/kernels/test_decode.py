"""The decoder on bytes that nobody chose: it agrees with the standard library, and no record disturbs another."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from datetime import UTC
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.declared import parse_schema
from penstock.core.errors import BugError
from penstock.kernels.columns import arrow_schema
from penstock.kernels.decode import decode, describe

EVERY = (
    "s string, b boolean, y byte, h short, i int, n long, f float, d double,"
    " q decimal(18,6), w decimal(38,18), day date, at timestamp"
)
ORDER = '{"s":"x\\u00e9","b":true,"i":7,"d":0.25,"q":"1.50","at":"2024-01-01T00:00:00Z","x":{"y":[1,{"z":null}]}}'


def read(records: Sequence[bytes | None], schema: str) -> list[dict[str, object] | str]:
    """Every record's row, or its problem."""
    columns = parse_schema(schema)
    lengths = np.array([-1 if record is None else len(record) for record in records], np.int64)
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    payload = np.frombuffer(b"".join(record or b"" for record in records), np.uint8)
    out = decode(payload, starts, lengths, columns)
    out.columns.validate(full=True)
    assert out.columns.schema == arrow_schema(columns)
    rows = out.columns.to_pylist()
    for row, problem in zip(rows, out.problem, strict=True):
        assert not problem or all(value is None for value in row.values())
    return [
        describe(int(problem), int(field), columns=columns) if problem else row
        for row, problem, field in zip(rows, out.problem, out.field, strict=True)
    ]


def refuse(constant: str) -> None:
    raise ValueError(constant)


def is_json(record: bytes) -> bool:
    try:
        json.loads(record.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return not record.startswith(b"\xef\xbb\xbf")


PIECES = st.sampled_from(
    b'{ } [ ] : , " "s" "i": 1 - . e 0 \\ \\u12 00e9 \\ud83d \\udc00 true nul x \xc3\xa9 \xc3 \xed\xa0\x80 \0'.split(
        b" "
    )
) | st.sampled_from([b" ", b"\n"])
MUTANTS = st.tuples(st.integers(0, len(ORDER.encode())), st.integers(0, 3), st.lists(PIECES, max_size=3)).map(
    lambda cut: ORDER.encode()[: cut[0]] + b"".join(cut[2]) + ORDER.encode()[cut[0] + cut[1] :]
)
RECORDS = st.binary(max_size=40) | st.lists(PIECES, max_size=12).map(b"".join) | MUTANTS


@given(RECORDS)
def test_a_record_is_json_exactly_where_the_standard_library_reads_it(record: bytes) -> None:
    (found,) = read([record], "i string")
    assert (found != "not JSON") == is_json(record)


@given(st.lists(st.none() | RECORDS, max_size=8))
def test_o3_a_record_decodes_alike_among_any_neighbours(records: list[bytes | None]) -> None:
    records = [record for record in records for _ in range(2)]  # neighbours alike, and different
    assert read(records, EVERY) == [read([record], EVERY)[0] for record in records]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=6), TEXTS, st.booleans(), st.sampled_from([None, 2]))
def test_text_comes_through_any_spelling_beside_any_fields(fields, text, ascii_only, indent):  # type: ignore[no-untyped-def]
    record = json.dumps({**fields, "s": text}, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    assert read([record], "s string") == [{"s": text} if "\0" not in text else "field s is not a string"]


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["r", ".17e", ".25f", ".3f"]))
def test_a_double_is_the_nearest_to_its_text(value: float, shape: str) -> None:
    text = repr(value) if shape == "r" else format(value, shape)
    (row,) = read([f'{{"d":{text}}}'.encode()], "d double")
    assert isinstance(row, dict)
    assert struct.pack("<d", row["d"]) == struct.pack("<d", float(text))


@given(st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))), st.data())
def test_a_decimal_is_its_text(size: tuple[int, int], data: st.DataObject) -> None:
    precision, scale = size
    unscaled = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    value = Decimal(f"{unscaled}e-{scale}")
    schema = f"q decimal({precision},{scale})"
    plain = f"{value:f}"
    assert read([f'{{"q":{plain}}}'.encode(), f'{{"q":"{plain}"}}'.encode()], schema) == [{"q": value}] * 2
    moved = data.draw(st.integers(-60, 60))
    shifted = f"{unscaled}e{moved}"
    fits = (max(0, -moved) <= scale) and abs(unscaled) * 10 ** max(moved, 0) < 10 ** (
        precision - scale + max(0, -moved)
    )
    (found,) = read([f'{{"q":{shifted}}}'.encode()], schema)
    assert found == ({"q": Decimal(shifted)} if fits else f"field q is not a {schema[2:]}")


@given(st.integers(-(2**70), 2**70), st.sampled_from([("byte", 8), ("short", 16), ("int", 32), ("long", 64)]))
def test_an_integer_is_in_range_or_refused(value: int, kind: tuple[str, int]) -> None:
    (found,) = read([f'{{"v":{value}}}'.encode()], f"v {kind[0]}")
    assert isinstance(found, dict) == (-(2 ** (kind[1] - 1)) <= value < 2 ** (kind[1] - 1))
    assert not isinstance(found, dict) or found == {"v": value}


@given(st.datetimes(timezones=st.timezones()))
def test_a_timestamp_is_its_instant(value) -> None:  # type: ignore[no-untyped-def]
    offset = value.utcoffset()
    if offset.total_seconds() % 60:
        return  # old zones had seconds, which the format has not
    text = value.replace(tzinfo=None).isoformat()
    minutes = int(offset.total_seconds() // 60)
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    expected: object
    try:
        expected = {"at": value.astimezone(UTC)}
    except OverflowError:
        expected = "field at is not a timestamp"
    assert read([f'{{"at":"{text}{zone}"}}'.encode()], "at timestamp") == [expected]


def test_what_plain_python_reads_is_read_by_the_same_rules() -> None:
    every = '"s":"a\\"b","b":true,"y":-1,"h":2,"i":3,"n":4,"f":0.5,"d":0.30000000000000004,"q":1.5,"w":"2.5"'
    times = '"day":"2024-02-29","at":"2024-01-01T00:00:00Z"'
    straight, escaped = f'{{{every},{times},"x":[1]}}'.encode(), f'{{{every},{times},"\\u0078":[1]}}'.encode()
    plain, unusual, between, broken = read([straight, escaped, b"{}", escaped.replace(b":2,", b":2.0,")], EVERY)
    assert isinstance(plain, dict)
    assert plain == unusual
    assert list(plain.values())[:8] == ['a"b', True, -1, 2, 3, 4, 0.5, 0.30000000000000004]
    assert between == dict.fromkeys(plain)
    assert broken == "field h is not a short"


def test_an_unusual_record_may_hold_a_lone_surrogate_where_nobody_looks() -> None:
    record = b'{"\\u0073":"x","\\ud800":"\\udc00","y":{"\\ud800":1}}'
    assert read([record], "s string") == [{"s": "x"}]
    assert read([record.replace(b'"x"', b'"\\ud800"')], "s string") == ["field s is not a string"]
    assert read([record.replace(b'"x"', b'{"a":1}')], "s string") == ["field s is not a string"]


@pytest.mark.parametrize("known", [1, 200])
def test_a_record_of_a_thousand_keys_is_read_and_a_repeat_in_it_seen(known: int) -> None:
    columns = ", ".join(f"k{n} int" for n in range(known))
    keys = [f'"k{n}":{n}' for n in range(1000)]
    assert read([f"{{{','.join(keys)}}}".encode()], columns) == [{f"k{n}": n for n in range(known)}]
    for twice in (known - 1, known, 255 + known, 999):
        again = f'{{{",".join(keys)},"k{twice}":0}}'.encode()
        assert read([again], columns) == ["repeated key"]


def test_the_first_field_is_named_where_a_double_is_found_infinite_last() -> None:
    bad = b'{"a":1e999,"b":"x"}'
    assert read([bad], "a double, b int") == ["field a is not a double"]
    assert read([bad], "b int, a double") == ["field b is not an int"]
    assert read([b'{"a":1e39,"b":1e999}'], "b double, a float") == ["field b is not a double"]
    assert math.isfinite(read([b'{"a":3e38}'], "a float")[0]["a"])  # type: ignore[index,arg-type]


def test_no_record_gives_no_row() -> None:
    assert read([], EVERY) == []
    assert read([None], EVERY) == ["null value"]


def test_a_record_past_the_payload_is_a_bug() -> None:
    payload = np.frombuffer(b"{}", np.uint8)
    with pytest.raises(BugError, match="within the payload"):
        decode(payload, np.array([1]), np.array([2]), parse_schema("a int"))


def test_one_wide_batch_equals_its_records_one_by_one() -> None:
    records = [f'{{"s":"r{n}","q":{n}.{n:06d},"u{n % 7}":null}}'.encode() for n in range(5000)]
    rows = read(records, "s string, q decimal(18,6)")
    assert rows == [{"s": f"r{n}", "q": Decimal(f"{n}.{n:06d}")} for n in range(5000)]
    assert pa.array([row["s"] for row in rows]).null_count == 0  # type: ignore[index]
