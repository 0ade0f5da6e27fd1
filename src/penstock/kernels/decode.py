"""Decode the values of records, which are JSON, into typed Arrow columns: exactly, or with the reason why not.

V1   Every record gets a row and at most one problem; a record that has one is null in every column.
O3   The answer for a record depends on its bytes and the schema alone, never on its neighbours.

The rules, which the verifier follows with code of its own:
- A value is one JSON text (RFC 8259) in UTF-8, at most 512 brackets deep, with an object at its top whose keys differ.
- Fields that the schema does not name are passed over. A declared field that is missing or null is null; one that is
  not exactly of its type makes the record undecodable, and the first such field in schema order is named.
- Strings come from strings, without U+0000 and lone surrogates, which Postgres cannot hold. Integers come from numbers
  without fraction and exponent, in range. Doubles and floats come from numbers and are finite.
- Decimals come from a number's text, or a string that holds one: the exponent, -100 to 100, is applied to the digits;
  more fraction digits than the scale, or more integer digits than precision less scale, are refused.
- Timestamps are `YYYY-MM-DDTHH:MM:SS[.f{1,6}]` with `Z` or `+HH:MM`, in UTC within the years 1 to 9999. Dates are
  `YYYY-MM-DD`.

Limit: the text of one string column of one call stays below 2 GiB. Worst case: a key with an escape sends its record
through plain Python, at 10 us and more; a megabyte that is nothing but keys takes 0.2 s there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.declared import Column, TypeName
from penstock.core.invariant import invariant
from penstock.kernels import json_scan, json_values
from penstock.kernels.columns import arrow_schema, arrow_type
from penstock.kernels.json_scan import FINE, REPEATED_KEY, UNUSUAL, WRONG_FIELD, Int8s, Int64s
from penstock.kernels.json_text import Bytes

Int16s = npt.NDArray[np.int16]
_TEXTS = {
    json_scan.NULL_VALUE: "null value",
    json_scan.NOT_JSON: "not JSON",
    json_scan.NOT_AN_OBJECT: "not an object",
    json_scan.REPEATED_KEY: "repeated key",
}
_SHAPES: dict[TypeName, tuple[int, int]] = {
    "string": (json_values.STRING, 0),
    "boolean": (json_values.BOOLEAN, 0),
    "byte": (json_values.INTEGER, 8),
    "short": (json_values.INTEGER, 16),
    "int": (json_values.INTEGER, 32),
    "long": (json_values.INTEGER, 64),
    "float": (json_values.DOUBLE, 32),
    "double": (json_values.DOUBLE, 64),
    "decimal": (json_values.DECIMAL, 0),
    "date": (json_values.DATE, 0),
    "timestamp": (json_values.TIMESTAMP, 0),
}
_TEXT_BYTES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Decoded:
    """One row per record: its columns, its problem (0: none), and the index of the column that the problem is about."""

    columns: pa.RecordBatch
    problem: Int8s
    field: Int16s


def decode(payload: Bytes, start: Int64s, length: Int64s, columns: tuple[Column, ...]) -> Decoded:
    """Decode the records at `start` in `payload`; a length of -1 is a null value.

    >>> from penstock.core.declared import parse_schema
    >>> text = np.frombuffer(b'{"id":"a","n":7}{"id":1}', np.uint8)
    >>> schema = parse_schema("id string, n int")
    >>> decoded = decode(text, np.array([0, 16]), np.array([16, 8]), schema)
    >>> decoded.columns.to_pylist()
    [{'id': 'a', 'n': 7}, {'id': None, 'n': None}]
    >>> describe(int(decoded.problem[1]), int(decoded.field[1]), columns=schema)
    'field id is not a string'
    """
    sound = (start >= 0) & (start + np.maximum(length, 0) <= len(payload))
    invariant(sound.all(), "records lie within the payload", bytes=len(payload))
    read = _scan(payload, start, length, [column.name for column in columns], columns)
    side = _read_unusual(read, payload, start, length, columns)
    for index, column in enumerate(columns):
        if column.type.name in ("float", "double"):
            _finish_doubles(read, index, _Texts(payload, side), single=column.type.name == "float")
    read.valid[:, read.problem != FINE] = json_values.ABSENT
    arrays = [_array(read, index, _Texts(payload, side), column) for index, column in enumerate(columns)]
    return Decoded(pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns)), read.problem, read.field)


def describe(problem: int, field: int, *, columns: tuple[Column, ...]) -> str:
    """The problem as the rejected record's reason tells it."""
    if problem != WRONG_FIELD:
        return _TEXTS[problem]
    column = columns[field]
    return f"field {column.name} is not {'an' if column.type.name == 'int' else 'a'} {column.type}"


@dataclass(frozen=True, slots=True)
class _Scan:
    """What the scan fills: see `json_scan.scan`."""

    words: Int64s
    valid: Bytes
    problem: Int8s
    field: Int16s


@dataclass(frozen=True, slots=True)
class _Texts:
    """Where the bytes of strings lie: in the payload, or among the records that were written anew."""

    payload: Bytes
    side: Bytes


def _scan(payload: Bytes, start: Int64s, length: Int64s, names: Sequence[str], columns: tuple[Column, ...]) -> _Scan:
    count = len(start)
    encoded = [name.encode() for name in names]
    name_starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    shapes = [(_SHAPES[c.type.name][0], _SHAPES[c.type.name][1] or c.type.precision, c.type.scale) for c in columns]
    words = np.empty((len(columns), 2 * count), np.int64)
    valid = np.zeros((len(columns), count), np.uint8)
    read = _Scan(words, valid, np.zeros(count, np.int8), np.zeros(count, np.int16))
    json_scan.scan(
        _frozen(payload),
        np.require(start, np.int64, ["C", "A"]),
        np.require(length, np.int64, ["C", "A"]),
        _frozen(np.frombuffer(b"".join(encoded), np.uint8)),
        name_starts,
        np.array(shapes, np.int64),
        words,
        valid,
        read.problem,
        read.field,
    )
    return read


def _frozen(data: Bytes) -> Bytes:
    """A view that may not be written: compiled code is kept per type, and this is part of an array's type."""
    view = np.ascontiguousarray(data).view()
    view.flags.writeable = False
    return view


def _read_unusual(read: _Scan, payload: Bytes, start: Int64s, length: Int64s, columns: tuple[Column, ...]) -> Bytes:
    """Write the records that the scan left anew, in its own plain form, and scan them; their bytes are the answer."""
    rows = np.flatnonzero(read.problem == UNUSUAL)
    texts = [_plain_record(payload[start[row] : start[row] + length[row]].tobytes(), columns) for row in rows]
    read.problem[rows] = REPEATED_KEY
    kept = [text for text in texts if text is not None]
    rows = rows[[text is not None for text in texts]] if len(rows) else rows
    side = np.frombuffer(b"".join(kept), np.uint8)
    lengths = np.array([len(text) for text in kept], np.int64)
    anew = _scan(side, np.cumsum(lengths) - lengths, lengths, [str(n) for n in range(len(columns))], columns)
    _place(anew, read, rows, columns)
    return side


def _place(anew: _Scan, read: _Scan, rows: Int64s, columns: tuple[Column, ...]) -> None:
    count, few = len(read.problem), len(rows)
    for index, column in enumerate(columns):
        words = anew.words[index]
        first, second = (words[0::2], words[1::2]) if column.type.name == "decimal" else (words[:few], words[few:])
        if column.type.name == "string":
            first = -1 - first
        elif column.type.name in ("float", "double"):
            first = np.where(anew.valid[index] == json_values.AS_TEXT, -1 - first, first)
        wide = column.type.name == "decimal"
        read.words[index, 2 * rows if wide else rows] = first
        read.words[index, 2 * rows + 1 if wide else count + rows] = second
    read.valid[:, rows], read.problem[rows], read.field[rows] = anew.valid, anew.problem, anew.field


class _Number(str):
    """A number's text as it stood in the record."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Pairs:
    pairs: list[tuple[str, object]]


_PLAIN = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')


def _plain_record(text: bytes, columns: tuple[Column, ...]) -> bytes | None:
    """A sound record with its declared fields alone, by number, and no escape but in strings; None: a key repeats."""
    whole = json.loads(text.decode(), parse_int=_Number, parse_float=_Number, object_pairs_hook=_Pairs)
    found = dict(whole.pairs)
    if len(found) < len(whole.pairs):
        return None
    fields = (f'"{index}":{_plain_value(found.get(column.name), column)}' for index, column in enumerate(columns))
    return f"{{{','.join(fields)}}}".encode()


def _plain_value(value: object, column: Column) -> str:
    if isinstance(value, _Number):
        return value
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return f'"{value}"'
    if isinstance(value, str) and column.type.name == "string":
        return json.dumps(value)
    # A string with such characters, an object or an array: of no other type.
    return json.dumps(value) if value is None or isinstance(value, bool) else "{}"


def _finish_doubles(read: _Scan, index: int, texts: _Texts, *, single: bool) -> None:
    """Read the numbers that were left as text, round to single precision where asked, and refuse what is not finite."""
    count = len(read.problem)
    valid, values = read.valid[index], read.words[index, :count].view(np.float64)
    left = np.flatnonzero(valid == json_values.AS_TEXT)
    if len(left):
        # Arrow's conversion is correctly rounded, and answers infinity for what is past the greatest double.
        text = _text(read.words[index], valid, json_values.AS_TEXT, texts)
        values[left] = text.take(pa.array(left)).cast(pa.float64()).to_numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(values.astype(np.float32) if single else values)
    wrong = (valid != json_values.ABSENT) & ~finite
    told = wrong & ((read.problem == FINE) | ((read.problem == WRONG_FIELD) & (read.field > index)))
    read.problem[told], read.field[told] = WRONG_FIELD, index
    valid[left] = json_values.PRESENT


def _text(words: Int64s, valid: Bytes, wanted: int, texts: _Texts) -> pa.StringArray:
    count = len(valid)
    sizes = words[count:]
    sizes = np.where(valid == wanted, np.where(sizes < 0, -1 - sizes, sizes), 0)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    invariant(offsets[-1] <= _TEXT_BYTES_MAX, "a batch's text fits an Arrow column", bytes=int(offsets[-1]))
    narrow, out = offsets.astype(np.int32), np.empty(int(offsets[-1]), np.uint8)
    json_scan.gather(_frozen(texts.payload), _frozen(texts.side), words, valid, wanted, narrow, out)
    buffers = [_bitmap(valid == wanted), pa.py_buffer(narrow), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _bitmap(present: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def _array(read: _Scan, index: int, texts: _Texts, column: Column) -> pa.Array:
    valid, words, kind = read.valid[index], read.words[index], arrow_type(column.type)
    if column.type.name == "string":
        return _text(words, valid, json_values.PRESENT, texts)
    present = valid == json_values.PRESENT
    if column.type.name == "decimal":
        words[np.repeat(~present, 2)] = 0  # what lies under a null is always the same
        return pa.Array.from_buffers(kind, len(valid), [_bitmap(present), pa.py_buffer(words)])
    values = words[: len(valid)]
    values[~present] = 0
    return pa.Array.from_buffers(kind, len(valid), [_bitmap(present), pa.py_buffer(_narrow(values, column.type.name))])


def _narrow(values: Int64s, name: TypeName) -> npt.NDArray[np.generic]:
    if name == "boolean":
        return np.packbits(values.astype(np.bool_), bitorder="little")
    if name in ("float", "double"):
        doubles = values.view(np.float64)
        return doubles.astype(np.float32) if name == "float" else doubles
    widths = {"byte": np.int8, "short": np.int16, "int": np.int32, "date": np.int32}
    return values.astype(widths[name]) if name in widths else values
