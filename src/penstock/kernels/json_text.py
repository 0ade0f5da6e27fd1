"""Find one's way through the bytes of a JSON text: strings, numbers, literals, and any value to be passed over.

Every function takes where to read and where the record ends, and answers where it stopped, or -1 where the bytes are
not JSON (RFC 8259, UTF-8, at most 512 brackets open at once). No byte at or past the end decides anything or is read.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from penstock.kernels.compiled import compiled, word

Bytes = npt.NDArray[np.uint8]
Pointer: TypeAlias = MutableSequence[int]
"""The elements of an array, without its length."""

DEPTH_MAX = 512
ESCAPED, UNSTORABLE = 1, 2
"""What a string holds: an escape; and one that stands for U+0000 or for a surrogate without its partner."""

QUOTE, BACKSLASH, COMMA, COLON, POINT, PLUS, MINUS, ZERO = 34, 92, 44, 58, 46, 43, 45, 48
BRACE, BRACKET = 123, 91  # the closing ones are two further
_U = 117
_ONES, _HIGHS = word(0x0101010101010101), word(0x8080808080808080)
_QUOTES, _BACKSLASHES, _SPACES = word(0x2222222222222222), word(0x5C5C5C5C5C5C5C5C), word(0x2020202020202020)
_TEN, _NONE = word(10), word(0)


@intrinsic
def _pointer(_context: Any, array: Any) -> Any:
    """Where an array begins: plain reads, without a count of owners, which made the whole scan three times slower."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), emit  # type: ignore[no-untyped-call]


@intrinsic
def _word_at(_context: Any, pointer: Any, _at: Any) -> Any:
    """Eight bytes as one little-endian word, at any address."""

    def emit(_c: Any, builder: Any, _s: Any, arguments: Any) -> Any:
        place = builder.gep(arguments[0], [arguments[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(pointer, types.int64), emit


@intrinsic
def _zeros_below(_context: Any, _word: Any) -> Any:
    def emit(_c: Any, builder: Any, _s: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), emit


pointer: Callable[[npt.NDArray[Any]], Pointer] = cast("Any", _pointer)
_load: Callable[[Pointer, int], Any] = cast("Any", _word_at)
_trailing_zeros: Callable[[int], int] = cast("Any", _zeros_below)


@compiled
def space(p: Pointer, at: int, end: int) -> int:
    while at < end and (p[at] == 32 or p[at] == 10 or p[at] == 13 or p[at] == 9):
        at += 1
    return at


@compiled
def _plain_until(p: Pointer, at: int, end: int) -> int:
    """The first byte from `at` on that is a quote, a backslash, a control character or not ASCII; or `end`."""
    while at + 8 <= end:
        eight = _load(p, at)
        quote, backslash = eight ^ _QUOTES, eight ^ _BACKSLASHES
        # A borrow can only mark bytes above the first true one, and only the first counts.
        marks = ((quote - _ONES) & ~quote) | ((backslash - _ONES) & ~backslash) | ((eight - _SPACES) & ~eight) | eight
        marks &= _HIGHS
        if marks:
            return min(end, at + (_trailing_zeros(marks) >> 3))
        at += 8
    while at < end and p[at] != QUOTE and p[at] != BACKSLASH and 32 <= p[at] < 128:
        at += 1
    return min(at, end)


@compiled
def _utf8_size(p: Pointer, at: int, end: int) -> int:
    """The bytes of the character that begins here and is not ASCII; 0 where it is not UTF-8."""
    first = p[at]
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if first < 0xC2 or first > 0xF4 or at + size > end:
        return 0
    for n in range(1, size):
        if p[at + n] & 0xC0 != 0x80:
            return 0
    second = p[at + 1]
    overlong = (first == 0xE0 and second < 0xA0) or (first == 0xF0 and second < 0x90)
    beyond = (first == 0xED and second >= 0xA0) or (first == 0xF4 and second >= 0x90)
    return 0 if overlong or beyond else size


@compiled
def _hex4(p: Pointer, at: int, end: int) -> int:
    if at + 4 > end:
        return -1
    value = 0
    for n in range(4):
        byte = int(p[at + n])
        letter = byte | 32
        if 48 <= byte <= 57:
            value = value * 16 + byte - 48
        elif 97 <= letter <= 102:
            value = value * 16 + letter - 87
        else:
            return -1
    return value


@compiled
def _short_escape(letter: int) -> int:
    """The character that a backslash and this letter stand for, or -1."""
    if letter in (QUOTE, BACKSLASH, 47):
        return letter
    if letter == 98:
        return 8
    if letter == 102:
        return 12
    if letter == 110:
        return 10
    if letter == 114:
        return 13
    return 9 if letter == 116 else -1


@compiled
def escape(p: Pointer, at: int, end: int) -> tuple[int, int]:
    """The character of the escape whose backslash is at `at`, a lone surrogate as itself, and its bytes here; or -1."""
    if at + 1 >= end:
        return -1, 0
    if p[at + 1] != _U:
        return _short_escape(int(p[at + 1])), 2
    high = _hex4(p, at + 2, end)
    if 0xD800 <= high < 0xDC00 and at + 7 < end and p[at + 6] == BACKSLASH and p[at + 7] == _U:
        low = _hex4(p, at + 8, end)
        if 0xDC00 <= low < 0xE000:
            return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), 12
    return high, 6


@compiled
def encoded_size(character: int) -> int:
    return 1 if character < 0x80 else 2 if character < 0x800 else 3 if character < 0x10000 else 4


@compiled
def read_string(p: Pointer, at: int, end: int) -> tuple[int, int, int]:
    """From behind the opening quote: where the closing one is (-1: not JSON), what it holds, its bytes decoded."""
    start, saved, flags = at, 0, 0
    while True:
        at = _plain_until(p, at, end)
        if at >= end or p[at] < 32:
            return -1, 0, 0
        if p[at] == QUOTE:
            return at, flags, at - start - saved
        if p[at] == BACKSLASH:
            character, size = escape(p, at, end)
            if character < 0:
                return -1, 0, 0
            flags |= ESCAPED | (UNSTORABLE if character == 0 or 0xD800 <= character < 0xE000 else 0)
            saved += size - encoded_size(character)
        else:
            size = _utf8_size(p, at, end)
            if size == 0:
                return -1, 0, 0
        at += size


@compiled
def read_number(p: Pointer, at: int, end: int) -> tuple[int, bool, int, int, int, bool, int]:
    """Where the number ends (-1: none), sign, first 19 digits, how many digits, fraction digits, whole, exponent.

    Leading zeros are no digits. An exponent past a million stays there.
    """
    negative = at < end and p[at] == MINUS
    at += 1 if negative else 0
    first, mantissa, digits = at, _NONE, 0
    while at < end and 48 <= p[at] <= 57:
        if digits > 0 or p[at] != ZERO:
            mantissa = mantissa * _TEN + word(p[at] - 48) if digits < 19 else mantissa
            digits += 1
        at += 1
    if at == first or (p[first] == ZERO and at > first + 1):
        return -1, negative, mantissa, digits, 0, True, 0
    fraction, exponent, whole = 0, 0, True
    if at < end and p[at] == POINT:
        at, first, whole = at + 1, at + 1, False
        while at < end and 48 <= p[at] <= 57:
            if digits > 0 or p[at] != ZERO:
                mantissa = mantissa * _TEN + word(p[at] - 48) if digits < 19 else mantissa
                digits += 1
            at += 1
        fraction = at - first
        if fraction == 0:
            return -1, negative, mantissa, digits, 0, False, 0
    if at < end and (p[at] == 101 or p[at] == 69):
        at, whole = at + 1, False
        below = at < end and p[at] == MINUS
        at += 1 if at < end and (below or p[at] == PLUS) else 0
        first = at
        while at < end and 48 <= p[at] <= 57:
            exponent = min(exponent * 10 + int(p[at]) - 48, 1_000_000)
            at += 1
        if at == first:
            return -1, negative, mantissa, digits, 0, False, 0
        exponent = -exponent if below else exponent
    return at, negative, mantissa, digits, fraction, whole, exponent


@compiled
def read_literal(p: Pointer, at: int, end: int) -> tuple[int, int]:
    """Where `null`, `false` or `true` ends (-1: it is none of them) and 0, 1 or 2 for which it is."""
    if at + 4 <= end and p[at] == 110 and p[at + 1] == 117 and p[at + 2] == 108 and p[at + 3] == 108:
        return at + 4, 0
    if at + 4 <= end and p[at] == 116 and p[at + 1] == 114 and p[at + 2] == 117 and p[at + 3] == 101:
        return at + 4, 2
    alse = at + 5 <= end and p[at + 1] == 97 and p[at + 2] == 108 and p[at + 3] == 115 and p[at + 4] == 101
    return (at + 5, 1) if alse and p[at] == 102 else (-1, 0)


@compiled
def _skip_scalar(p: Pointer, at: int, end: int) -> int:
    if p[at] == QUOTE:
        stop = read_string(p, at + 1, end)[0]
        return stop + 1 if stop >= 0 else -1
    if p[at] == MINUS or 48 <= p[at] <= 57:
        return read_number(p, at, end)[0]
    return read_literal(p, at, end)[0]


@compiled
def _skip_key(p: Pointer, at: int, end: int) -> int:
    """Past a key and its colon, or -1."""
    at = space(p, at, end)
    if at >= end or p[at] != QUOTE:
        return -1
    at = read_string(p, at + 1, end)[0]
    if at < 0:
        return -1
    at = space(p, at + 1, end)
    return at + 1 if at < end and p[at] == COLON else -1


@compiled
def skip_value(p: Pointer, at: int, end: int, outside: int, stack: Pointer) -> int:
    """Past any value, or -1; `outside` brackets are open around it."""
    depth = outside
    while True:
        at = space(p, at, end)
        if at >= end:
            return -1
        opening = p[at]
        if opening in (BRACE, BRACKET):
            depth += 1
            if depth > DEPTH_MAX:
                return -1
            stack[depth] = opening
            at = space(p, at + 1, end)
            if at >= end or p[at] != opening + 2:
                at = _skip_key(p, at, end) if opening == BRACE else at
                if at < 0:
                    return -1
                continue
        else:
            at = _skip_scalar(p, at, end)
            if at < 0:
                return -1
        # A value has ended at `at`, or an empty bracket is about to close there.
        while True:
            if depth == outside:
                return at
            at = space(p, at, end)
            if at >= end:
                return -1
            byte = p[at]
            at += 1
            if byte == COMMA:
                break
            if byte != stack[depth] + 2:
                return -1
            depth -= 1
        at = _skip_key(p, at, end) if stack[depth] == BRACE else at
        if at < 0:
            return -1
