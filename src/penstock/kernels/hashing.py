"""Hash rows of decoded values: SipHash-2-4 with 128 bits, under a key of the pipeline's own.

O3   Equal values hash alike, wherever they stand: `1.50` and `1.5` of one decimal type, `-0.0` and `0.0`.

What is hashed of a row is a sequence of 64-bit words, from which the values can be told again: for every 64 columns a
word whose bits say which are null; then, for every column that is not, an integer, boolean, date (days) or timestamp
(microseconds) as one word; a float or double as the double's bits; a decimal's unscaled value as two, the lower first;
a string as its length in bytes and its UTF-8, filled up with zeros to whole words.
Limit: the types of the columns are no part of it, so only rows of one schema may be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.invariant import invariant
from penstock.kernels.compiled import compiled, signed, word
from penstock.kernels.json_text import Bytes, Pointer, pointer

Words = npt.NDArray[np.uint64]

_1, _8, _13, _16, _17, _21, _32, _64, _56 = (word(n) for n in (1, 8, 13, 16, 17, 21, 32, 64, 56))
_START = (0x736F6D6570736575, 0x646F72616E646F6D ^ 0xEE, 0x6C7967656E657261, 0x7465646279746573)
_EE, _DD, _FF = word(0xEE), word(0xDD), word(0xFF)


def hash_rows(rows: pa.RecordBatch | pa.Table, names: Sequence[str], *, key: bytes) -> pa.FixedSizeBinaryArray:
    """Hash the columns `names` of every row, in that order, with a key of 16 bytes.

    >>> rows = pa.table({"a": ["x", "x", None]})
    >>> one, two, three = hash_rows(rows, ["a"], key=bytes(16)).to_pylist()
    >>> one == two, one == three
    (True, False)
    """
    invariant(len(key) == 16, "a hash key has 16 bytes", length=len(key))
    state = _start(key, rows.num_rows)
    arrays = [_one_array(rows.column(name)) for name in names]
    valid = [pc.is_valid(array).to_numpy(zero_copy_only=False) for array in arrays]
    for first in range(0, len(arrays), 64):
        _take_words(state, _null_bits(valid[first : first + 64], rows.num_rows), np.ones(rows.num_rows, np.bool_), 1)
    for array, present in zip(arrays, valid, strict=True):
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            _take_text(state, *_text(array.cast(pa.string())), present)
        else:
            words = _words(array)
            _take_words(state, words, present, 2 if pa.types.is_decimal(array.type) else 1)
    out = np.empty((rows.num_rows, 2), np.uint64)
    _finish(state, out)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), rows.num_rows, [None, pa.py_buffer(out)])


def hash_words(hashes: pa.Array | pa.ChunkedArray) -> Words:
    """The hashes as rows of two words, as `intake.decide` takes them; under a null lies anything.

    Spark hands a column of hashes back as plain binary, which is taken as well.
    """
    array = _one_array(hashes).cast(pa.binary(16))
    if len(array) == 0:
        return np.zeros((0, 2), np.uint64)
    words = np.frombuffer(array.buffers()[1], np.uint64, count=2 * len(array), offset=16 * array.offset)
    return words.reshape(len(array), 2)


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _start(key: bytes, count: int) -> Words:
    """A state per row: the four words of SipHash, and how many words it has taken."""
    halves = [int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")] * 2
    first = [start ^ half for start, half in zip(_START, halves, strict=True)]
    return np.tile(np.array([*first, 0], np.uint64), (count, 1))


def _null_bits(valid: Sequence[npt.NDArray[np.bool_]], count: int) -> Words:
    bits = np.zeros(count, np.uint64)
    for place, present in enumerate(valid):
        bits |= (~present).astype(np.uint64) << np.uint64(place)
    return bits


def _words(array: pa.Array) -> Words:
    if pa.types.is_decimal(array.type):
        buffer = array.cast(pa.decimal128(38, array.type.scale)).buffers()[1]
        return np.frombuffer(buffer, np.uint64, count=2 * len(array), offset=16 * array.offset)
    if pa.types.is_floating(array.type):
        doubles: npt.NDArray[np.float64] = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return (doubles + 0.0).view(np.uint64)  # adding zero makes -0.0 zero
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    numbers: npt.NDArray[np.int64] = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers.view(np.uint64)


def _text(array: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    if len(array) == 0:
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    _valid, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32, count=len(array) + 1, offset=4 * array.offset)
    return starts, np.frombuffer(data if data is not None else b"", np.uint8)


@compiled
def _rounds(v0: int, v1: int, v2: int, v3: int, count: int) -> tuple[int, int, int, int]:
    for _ in range(count):
        v0 += v1
        v2 += v3
        v1 = ((v1 << _13) | (v1 >> (_64 - _13))) ^ v0
        v3 = ((v3 << _16) | (v3 >> (_64 - _16))) ^ v2
        v0 = (v0 << _32) | (v0 >> _32)
        v2 += v1
        v0 += v3
        v1 = ((v1 << _17) | (v1 >> (_64 - _17))) ^ v2
        v3 = ((v3 << _21) | (v3 >> (_64 - _21))) ^ v0
        v2 = (v2 << _32) | (v2 >> _32)
    return v0, v1, v2, v3


@compiled
def _take(state: Pointer, at: int, taken: int) -> None:
    v0, v1, v2, v3 = _rounds(state[at], state[at + 1], state[at + 2], state[at + 3] ^ taken, 2)
    state[at], state[at + 1], state[at + 2], state[at + 3] = v0 ^ taken, v1, v2, v3
    state[at + 4] += _1


@compiled
def _take_words(state: Words, words: Words, present: npt.NDArray[np.bool_], each: int) -> None:
    rows = pointer(state)
    for i in range(present.size):
        if present[i]:
            for n in range(each):
                _take(rows, 5 * i, words[i * each + n])


@compiled
def _take_text(state: Words, starts: npt.NDArray[np.int32], data: Bytes, present: npt.NDArray[np.bool_]) -> None:
    rows, p = pointer(state), pointer(data)
    for i in range(present.size):
        if present[i]:
            at, end = signed(starts[i]), signed(starts[i + 1])
            _take(rows, 5 * i, word(end - at))
            while at < end:
                eight = word(0)
                for n in range(min(8, end - at)):
                    eight |= word(p[at + n]) << (_8 * word(n))
                _take(rows, 5 * i, eight)
                at += 8


@compiled
def _finish(state: Words, out: Words) -> None:
    rows = pointer(state)
    for i in range(out.shape[0]):
        at = 5 * i
        _take(rows, at, ((rows[at + 4] * _8) & _FF) << _56)
        v0, v1, v2, v3 = _rounds(rows[at], rows[at + 1], rows[at + 2] ^ _EE, rows[at + 3], 4)
        out[i, 0] = v0 ^ v1 ^ v2 ^ v3
        v0, v1, v2, v3 = _rounds(v0, v1 ^ _DD, v2, v3, 4)
        out[i, 1] = v0 ^ v1 ^ v2 ^ v3
