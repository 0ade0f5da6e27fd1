"""What the shared table cannot say: any bytes are answered, soon, and spelling never changes a value."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.core.declared import parse_schema
from penstock.testing.dice import Dice
from penstock.testing.streams import spell
from penstock.views.proof_decode import Problem, decode

COLUMNS = parse_schema("id string, n long, ok boolean, price decimal(18,6), at timestamp, day date, x double, y float")
WHOLE = (
    b'{"id": "a", "n": 1, "ok": true, "price": "1.50", "at": "2026-03-01T12:00:00Z", "day": "2026-03-01",'
    b' "x": 1e3, "y": 0.5, "more": [{"deep": "\\u00e9"}]}'
)
PIECES = st.sampled_from(
    [b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"d800", b",", b":", b"-", b"0", b"1e", b".", b"\xff"]
)


@settings(deadline=None)
@given(st.binary(max_size=60))
@example(b"")
def test_any_bytes_are_answered(value: bytes) -> None:
    assert isinstance(decode(value, COLUMNS), tuple | Problem)


@settings(deadline=None)
@given(st.integers(0, len(WHOLE)), st.integers(0, 4), st.lists(PIECES, max_size=4))
def test_any_damage_to_a_whole_record_is_answered(at: int, length: int, pieces: list[bytes]) -> None:
    assert isinstance(decode(WHOLE[:at] + b"".join(pieces) + WHOLE[at + length :], COLUMNS), tuple | Problem)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=30))
def test_any_pieces_of_json_are_answered(pieces: list[bytes]) -> None:
    assert isinstance(decode(b'{"id":' + b"".join(pieces) + b"}", COLUMNS), tuple | Problem)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_all_json_is_read_as_json(value: object) -> None:
    text = json.dumps({"id": "a", "other": value}).encode()
    assert decode(text, parse_schema("id string")) == ("a",)


@pytest.mark.parametrize("seed", range(10))
def test_v2_every_spelling_of_a_record_has_the_same_values(seed: int) -> None:
    row = decode(WHOLE, COLUMNS)
    assert isinstance(row, tuple)
    fields = dict(zip((column.name for column in COLUMNS), row, strict=True))
    assert decode(spell(fields, columns=COLUMNS, dice=Dice(seed)), COLUMNS) == row


def test_a_megabyte_of_brackets_and_open_strings_is_answered_in_one_pass() -> None:
    assert decode(b'{"x":' + b"[" * 600 + b'"\\"' * 300_000, COLUMNS) == Problem("not JSON")
    assert decode(b'{"id":"' + b"[{" * 500_000 + b'"}', COLUMNS) == ("[{" * 500_000, *[None] * 7)


def test_brackets_in_strings_are_not_counted_as_depth() -> None:
    raw = b'{"id": "' + b"[" * 600 + b'", "other": "\\"' + b"{" * 600 + b'"}'
    assert decode(raw, parse_schema("id string")) == ("[" * 600,)
