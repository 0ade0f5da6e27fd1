"""Read JSON records straight from their bytes into columns: compiled, one function for all schemas.

The rules are those of `decode`. Every loop moves on by at least one byte and what is kept per record is bounded, so the
time is linear in the bytes, whatever they are; the answer for a record depends on its own bytes alone.
Left to plain Python, one record at a time, is what is rare: an escape in a key or in a decimal, timestamp or date, and
more than 256 unknown keys. A double that needs more than 53 bits on its way is left with its text, to be read in bulk.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.kernels.compiled import compiled, signed, word
from penstock.kernels.json_text import (
    BACKSLASH,
    BRACE,
    COLON,
    COMMA,
    DEPTH_MAX,
    QUOTE,
    Bytes,
    Pointer,
    encoded_size,
    escape,
    pointer,
    read_string,
    skip_value,
    space,
)
from penstock.kernels.json_values import DECIMAL, LEFT, WRONG, read_value

Int64s = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]

FINE, NULL_VALUE, NOT_JSON, NOT_AN_OBJECT, REPEATED_KEY, WRONG_FIELD, UNUSUAL = 0, 1, 2, 3, 4, 5, -1

UNKNOWN_MAX = 256
_SLOTS = 1024
_SLOT_BITS = word(_SLOTS - 1)
_32 = word(32)
_FNV, _FNV_START = word(0x100000001B3), word(0xCBF29CE484222325)


@compiled
def _same(p: Pointer, at: int, q: Pointer, start: int, size: int) -> bool:
    for n in range(size):  # noqa: SIM110  # compiled code has no `all`
        if p[at + n] != q[start + n]:
            return False
    return True


@compiled
def _hash(p: Pointer, at: int, size: int) -> int:
    value: int = _FNV_START
    for n in range(size):
        value = (value ^ word(p[at + n])) * _FNV
    hashed: int = signed(value ^ (value >> _32))
    return hashed


@compiled
def _find_column(p: Pointer, at: int, size: int, names: Pointer, name_starts: Pointer, columns: int) -> int:
    for column in range(columns):
        start = name_starts[column]
        if name_starts[column + 1] - start == size and _same(p, at, names, start, size):
            return column
    return -1


@compiled
def _repeats(p: Pointer, key: int, size: int, hashed: int, record: int, slots: Pointer) -> bool:
    """Note an unknown key in a table of (record, hash, start, size) and tell whether the record had it before."""
    at = 4 * signed(word(hashed) & _SLOT_BITS)
    while slots[at] == record:
        if slots[at + 1] == hashed and slots[at + 3] == size and _same(p, key, p, slots[at + 2], size):
            return True
        at = (at + 4) & (4 * _SLOTS - 1)
    slots[at], slots[at + 1], slots[at + 2], slots[at + 3] = record, hashed, key, size
    return False


@compiled
def _key(
    p: Pointer, key: int, end: int, order: Pointer, k: int, names: Pointer, name_starts: Pointer, columns: int
) -> tuple[int, int, int, bool]:
    """The size of the key that begins here (-1: not JSON), its column or -1, its hash, and whether it has escapes.

    `order` holds start, size, column and hash of the keys that came k-th in an earlier record: mostly the same again.
    """
    at = 4 * min(k, UNKNOWN_MAX - 1)
    size = order[at + 1]
    if size >= 0 and key + size < end and p[key + size] == QUOTE and _same(p, key, p, order[at], size):
        return size, order[at + 2], order[at + 3], False
    stop, flags, _ = read_string(p, key, end)
    if stop < 0:
        return -1, -1, 0, False
    size = stop - key
    column, hashed = _find_column(p, key, size, names, name_starts, columns), _hash(p, key, size)
    order[at], order[at + 1], order[at + 2], order[at + 3] = key, (-1 if flags else size), column, hashed
    return size, column, hashed, flags != 0


@compiled
def _verdict(unusual: bool, repeated: bool, wrong: int, columns: int) -> tuple[int, int]:  # noqa: FBT001  # compiled
    if unusual:
        return UNUSUAL, 0
    if repeated:
        return REPEATED_KEY, 0
    return (WRONG_FIELD, wrong) if wrong < columns else (FINE, 0)


@compiled
def _read_object(
    p: Pointer,
    at: int,
    end: int,
    record: int,
    count: int,
    columns: int,
    names: Pointer,
    name_starts: Pointer,
    shapes: Pointer,
    order: Pointer,
    slots: Pointer,
    seen: Pointer,
    stack: Pointer,
    words: Pointer,
    valid: Pointer,
) -> tuple[int, int]:
    """The problem of the record whose opening brace was before `at`, and the first field that is not of its type."""
    wrong, repeated, unusual, unknown, k = columns, False, False, 0, 0
    at = space(p, at, end)
    closed = at < end and p[at] == BRACE + 2
    while not closed:
        if at >= end or p[at] != QUOTE:
            return NOT_JSON, 0
        key = at + 1
        size, column, hashed, escaped = _key(p, key, end, order, k, names, name_starts, columns)
        k, unusual = k + 1, unusual or escaped
        at = space(p, key + size + 1, end)
        if size < 0 or at >= end or p[at] != COLON:
            return NOT_JSON, 0
        at = space(p, at + 1, end)
        if at >= end:
            return NOT_JSON, 0
        if column >= 0:
            repeated = repeated or seen[column] == record
            seen[column] = record
            kind = shapes[3 * column]
            at, status, low, high = read_value(p, at, end, kind, shapes[3 * column + 1], shapes[3 * column + 2], stack)
            if status > 0:
                row = 2 * count * column
                valid[column * count + record] = status
                words[row + (2 * record if kind == DECIMAL else record)] = low
                words[row + (2 * record + 1 if kind == DECIMAL else count + record)] = high
            wrong = min(wrong, column) if status == WRONG else wrong
            unusual = unusual or status == LEFT
        else:
            unknown += 1
            unusual = unusual or unknown > UNKNOWN_MAX
            repeated = repeated or (not unusual and _repeats(p, key, size, hashed, record, slots))
            at = skip_value(p, at, end, 1, stack)
        at = space(p, at, end) if at >= 0 else end
        closed = at < end and p[at] == BRACE + 2
        if not closed:
            if at >= end or p[at] != COMMA:
                return NOT_JSON, 0
            at = space(p, at + 1, end)
    return _verdict(unusual, repeated, wrong, columns) if space(p, at + 1, end) == end else (NOT_JSON, 0)


@compiled
def scan(
    payload: Bytes,
    starts: Int64s,
    lengths: Int64s,
    names: Bytes,
    name_starts: Int64s,
    shapes: Int64s,
    words: Int64s,
    valid: Bytes,
    problem: Int8s,
    field: npt.NDArray[np.int16],
) -> None:
    """Read records into `words` (columns x twice the records), `valid` (columns x records), `problem` and `field`.

    `shapes` holds for every column kind, precision (bits, of an integer) and scale; `names` all names without a gap. A
    column's row of `words` has first the first words of all records, then the second ones; of decimals both in turn.
    """
    count, columns = starts.size, name_starts.size - 1
    p = pointer(payload)
    stack = np.zeros(DEPTH_MAX + 1, np.uint8)
    order = np.full(4 * UNKNOWN_MAX, -1, np.int64)
    slots = np.full(4 * _SLOTS, -1, np.int64)
    seen = np.full(columns, -1, np.int64)
    for record in range(count):
        at, end = starts[record], starts[record] + lengths[record]
        if lengths[record] < 0:
            problem[record] = NULL_VALUE
            continue
        at = space(p, at, end)
        if at < end and p[at] == BRACE:
            problem[record], field[record] = _read_object(
                p, at + 1, end, record, count, columns,
                pointer(names), pointer(name_starts), pointer(shapes),
                pointer(order), pointer(slots), pointer(seen), pointer(stack),
                pointer(words), pointer(valid),
            )  # fmt: skip
        else:
            at = skip_value(p, at, end, 0, pointer(stack))
            problem[record] = NOT_AN_OBJECT if at >= 0 and space(p, at, end) == end else NOT_JSON


@compiled
def _unescape(p: Pointer, at: int, out: Pointer, to: int, to_end: int) -> None:
    """Decode a string that `read_string` found sound; `out` points to bytes as `p` does."""
    while to < to_end:
        if p[at] != BACKSLASH:
            out[to] = p[at]
            at, to = at + 1, to + 1
            continue
        character, size = escape(p, at, at + 12)
        at += size
        more = encoded_size(character) - 1
        lead = 0 if more == 0 else (0xFF << (7 - more)) & 0xFF
        out[to] = lead | (character >> (6 * more))
        for n in range(1, more + 1):
            out[to + n] = 0x80 | ((character >> (6 * (more - n))) & 0x3F)
        to += more + 1


@compiled
def gather(
    payload: Bytes, side: Bytes, words: Int64s, valid: Bytes, wanted: int, offsets: npt.NDArray[np.int32], text: Bytes
) -> None:
    """Copy the text of a column's rows whose `valid` is `wanted`; a start below 0 counts from -1 on in `side`."""
    count, out = valid.size, pointer(text)
    p, q = pointer(payload), pointer(side)
    for i in range(count):
        if valid[i] == wanted:
            start, size, to = words[i], words[count + i], signed(offsets[i])
            at = -1 - start if start < 0 else start
            source = q if start < 0 else p
            if size < 0:
                _unescape(source, at, out, to, signed(offsets[i + 1]))
            else:
                for n in range(size):
                    out[to + n] = source[at + n]
