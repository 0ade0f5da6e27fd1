"""Read JSON records straight from their bytes into columns: compiled, one function for all schemas.

The rules are those of `decode`. Every loop moves on by at least one byte and what is kept per record is bounded, so the
time is linear in the bytes, whatever they are; the answer for a record depends on its own bytes alone.
Left to plain Python, one record at a time, is what is rare: an escape in a key or in a decimal, timestamp or date, and
more than 256 unknown keys. A double that needs more than 53 bits on its way is left with its text, to be read in bulk.
All compiled code of the scan stands in this file, because a cached function is checked against its own file alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from penstock.kernels.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Int8s = npt.NDArray[np.int8]

FINE, NULL_VALUE, NOT_JSON, NOT_AN_OBJECT, REPEATED_KEY, WRONG_FIELD, UNUSUAL = 0, 1, 2, 3, 4, 5, -1
STRING, BOOLEAN, INTEGER, DOUBLE, DECIMAL, DATE, TIMESTAMP = 0, 1, 2, 3, 4, 5, 6
ABSENT, PRESENT, AS_TEXT = 0, 1, 2
"""What `valid` holds: null; a value in `words`; a double whose text's start and length are in `words`."""

DEPTH_MAX = 512
EXPONENT_MAX = 100
UNKNOWN_MAX = 256
_SLOTS = 1024
_WRONG, _LEFT = -1, -2
_ESCAPED, _UNSTORABLE = 1, 2
_NO_DAY = -(1 << 40)
_DAY_US = 86_400_000_000
_DAYS_FIRST, _DAYS_LAST = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, counted from 1970-01-01

_QUOTE, _BACKSLASH, _COMMA, _COLON, _POINT, _PLUS, _MINUS, _ZERO, _U = 34, 92, 44, 58, 46, 43, 45, 48, 117
_BRACE, _BRACKET = 123, 91  # the closing ones are two further
_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES = np.uint64(0x2020202020202020)
_LOW = np.uint64(0xFFFFFFFF)
_TEN, _32, _0, _1 = np.uint64(10), np.uint64(32), np.uint64(0), np.uint64(1)
_EXACT_TENS = np.array([10.0**n for n in range(23)])
_WHOLE_TENS = np.array([10**n for n in range(20)], dtype=np.uint64)
_EXACT_MAX = np.uint64(1 << 53)
_LONG_MAX = np.uint64((1 << 63) - 1)
_FNV = np.uint64(0x100000001B3)
_FNV_START = np.uint64(0xCBF29CE484222325)


@intrinsic  # type: ignore[untyped-decorator]
def _load(_context: Any, array: Any, _at: Any) -> Any:
    """Eight bytes as one little-endian word, at any address."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(view.data, [arguments[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(array, types.int64), emit


@intrinsic  # type: ignore[untyped-decorator]
def _trailing_zeros(_context: Any, _word: Any) -> Any:
    def emit(_c: Any, builder: Any, _s: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), emit


@compiled
def _space(p: Bytes, at: int, end: int) -> int:
    while at < end and (p[at] == 32 or p[at] == 10 or p[at] == 13 or p[at] == 9):
        at += 1
    return at


@compiled
def _plain_until(p: Bytes, at: int, end: int) -> int:
    """The first byte from `at` on that is a quote, a backslash, a control character or not ASCII; or `end`."""
    safe = min(end, p.size - 7)
    while at < safe:
        word = _load(p, at)
        quote, backslash = word ^ _QUOTES, word ^ _BACKSLASHES
        # A borrow can only mark bytes above the first true one, and only the first counts.
        marks = ((quote - _ONES) & ~quote) | ((backslash - _ONES) & ~backslash) | ((word - _SPACES) & ~word) | word
        marks &= _HIGHS
        if marks:
            return min(end, at + (_trailing_zeros(marks) >> 3))
        at += 8
    while at < end and p[at] != _QUOTE and p[at] != _BACKSLASH and 32 <= p[at] < 128:
        at += 1
    return min(at, end)


@compiled
def _utf8_size(p: Bytes, at: int, end: int) -> int:
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
def _hex4(p: Bytes, at: int, end: int) -> int:
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
    if letter == _QUOTE or letter == _BACKSLASH or letter == 47:
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
def _escape(p: Bytes, at: int, end: int) -> tuple[int, int]:
    """The character of the escape whose backslash is at `at`, a lone surrogate as itself, and its bytes here; or -1."""
    if at + 1 >= end:
        return -1, 0
    if p[at + 1] != _U:
        return _short_escape(int(p[at + 1])), 2
    high = _hex4(p, at + 2, end)
    if 0xD800 <= high < 0xDC00 and at + 7 < end and p[at + 6] == _BACKSLASH and p[at + 7] == _U:
        low = _hex4(p, at + 8, end)
        if 0xDC00 <= low < 0xE000:
            return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), 12
    return high, 6


@compiled
def _encoded_size(character: int) -> int:
    return 1 if character < 0x80 else 2 if character < 0x800 else 3 if character < 0x10000 else 4


@compiled
def _read_string(p: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """From behind the opening quote: where the closing one is (-1: not JSON), what it holds, its bytes decoded."""
    start, saved, flags = at, 0, 0
    while True:
        at = _plain_until(p, at, end)
        if at >= end or p[at] < 32:
            return -1, 0, 0
        if p[at] == _QUOTE:
            return at, flags, at - start - saved
        if p[at] == _BACKSLASH:
            character, size = _escape(p, at, end)
            if character < 0:
                return -1, 0, 0
            flags |= _ESCAPED | (_UNSTORABLE if character == 0 or 0xD800 <= character < 0xE000 else 0)
            saved += size - _encoded_size(character)
        else:
            size = _utf8_size(p, at, end)
            if size == 0:
                return -1, 0, 0
        at += size


@compiled
def _read_number(p: Bytes, at: int, end: int) -> tuple[int, bool, int, int, int, bool, int]:
    """Where the number ends (-1: none), its sign, its first 19 digits, how many digits, fraction digits, whole, exponent.

    Leading zeros are no digits. An exponent past a million stays there.
    """
    negative = at < end and p[at] == _MINUS
    at += 1 if negative else 0
    first, mantissa, digits = at, _0, 0
    while at < end and 48 <= p[at] <= 57:
        if digits > 0 or p[at] != _ZERO:
            mantissa = mantissa * _TEN + np.uint64(p[at] - 48) if digits < 19 else mantissa
            digits += 1
        at += 1
    if at == first or (p[first] == _ZERO and at > first + 1):
        return -1, negative, mantissa, digits, 0, True, 0
    fraction, exponent, whole = 0, 0, True
    if at < end and p[at] == _POINT:
        at, first, whole = at + 1, at + 1, False
        while at < end and 48 <= p[at] <= 57:
            if digits > 0 or p[at] != _ZERO:
                mantissa = mantissa * _TEN + np.uint64(p[at] - 48) if digits < 19 else mantissa
                digits += 1
            at += 1
        fraction = at - first
        if fraction == 0:
            return -1, negative, mantissa, digits, 0, False, 0
    if at < end and (p[at] == 101 or p[at] == 69):
        at, whole = at + 1, False
        below = at < end and p[at] == _MINUS
        at += 1 if at < end and (below or p[at] == _PLUS) else 0
        first = at
        while at < end and 48 <= p[at] <= 57:
            exponent = min(exponent * 10 + int(p[at]) - 48, 1_000_000)
            at += 1
        if at == first:
            return -1, negative, mantissa, digits, 0, False, 0
        exponent = -exponent if below else exponent
    return at, negative, mantissa, digits, fraction, whole, exponent


@compiled
def _read_literal(p: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where `null`, `false` or `true` ends (-1: it is none of them) and 0, 1 or 2 for which it is."""
    if at + 4 <= end and p[at] == 110 and p[at + 1] == 117 and p[at + 2] == 108 and p[at + 3] == 108:
        return at + 4, 0
    if at + 4 <= end and p[at] == 116 and p[at + 1] == 114 and p[at + 2] == 117 and p[at + 3] == 101:
        return at + 4, 2
    alse = at + 5 <= end and p[at + 1] == 97 and p[at + 2] == 108 and p[at + 3] == 115 and p[at + 4] == 101
    return (at + 5, 1) if alse and p[at] == 102 else (-1, 0)


@compiled
def _skip_scalar(p: Bytes, at: int, end: int) -> int:
    if p[at] == _QUOTE:
        stop = _read_string(p, at + 1, end)[0]
        return stop + 1 if stop >= 0 else -1
    if p[at] == _MINUS or 48 <= p[at] <= 57:
        return _read_number(p, at, end)[0]
    return _read_literal(p, at, end)[0]


@compiled
def _skip_key(p: Bytes, at: int, end: int) -> int:
    """Past a key and its colon, or -1."""
    at = _space(p, at, end)
    if at >= end or p[at] != _QUOTE:
        return -1
    at = _read_string(p, at + 1, end)[0]
    if at < 0:
        return -1
    at = _space(p, at + 1, end)
    return at + 1 if at < end and p[at] == _COLON else -1


@compiled
def _skip_value(p: Bytes, at: int, end: int, outside: int, stack: Bytes) -> int:
    """Past any value, or -1; `outside` brackets are open around it."""
    depth = outside
    while True:
        at = _space(p, at, end)
        if at >= end:
            return -1
        opening = p[at]
        if opening == _BRACE or opening == _BRACKET:
            depth += 1
            if depth > DEPTH_MAX:
                return -1
            stack[depth] = opening
            at = _space(p, at + 1, end)
            if at >= end or p[at] != opening + 2:
                at = _skip_key(p, at, end) if opening == _BRACE else at
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
            at = _space(p, at, end)
            if at >= end:
                return -1
            byte = p[at]
            at += 1
            if byte == _COMMA:
                break
            if byte != stack[depth] + 2:
                return -1
            depth -= 1
        at = _skip_key(p, at, end) if stack[depth] == _BRACE else at
        if at < 0:
            return -1


@compiled
def _times_ten(high: int, low: int) -> tuple[int, int]:
    """128 bits, as two words."""
    lower = (low & _LOW) * _TEN
    upper = (low >> _32) * _TEN + (lower >> _32)
    return high * _TEN + (upper >> _32), (upper << _32) | (lower & _LOW)


@compiled
def _wide(p: Bytes, at: int, after: int) -> tuple[int, int]:
    """The digits of a number that has at most 38 of them, in 128 bits."""
    high, low = _0, _0
    while at < after and p[at] < 58:  # an `e` ends them
        if p[at] >= 48:
            high, low = _times_ten(high, low)
            digit = np.uint64(p[at] - 48)
            high, low = high + (_1 if low + digit < low else _0), low + digit
        at += 1
    return high, low


@compiled
def _read_decimal(p: Bytes, at: int, end: int, precision: int, scale: int) -> tuple[int, int, int, int]:
    after, negative, low, digits, fraction, _whole, exponent = _read_number(p, at, end)
    if after < 0:
        return -1, _WRONG, 0, 0
    kept = max(0, fraction - exponent)
    added = max(0, exponent - fraction)
    fits = kept <= scale and (digits == 0 or digits + added - kept <= precision - scale)
    if not fits or exponent > EXPONENT_MAX or exponent < -EXPONENT_MAX:
        return after, _WRONG, 0, 0
    steps, high = (added + scale - kept if digits else 0), _0
    if digits > 19:
        high, low = _wide(p, at, after)
    if digits + steps <= 19:
        low, steps = low * _WHOLE_TENS[steps], 0
    for _ in range(steps):
        high, low = _times_ten(high, low)
    if negative:
        high, low = ~high + (_1 if low == _0 else _0), ~low + _1
    return after, PRESENT, np.int64(low), np.int64(high)


@compiled
def _digits(p: Bytes, at: int, count: int) -> int:
    """The number that `count` digits spell, or less than 0 where one is no digit."""
    value = 0
    for n in range(count):
        digit = int(p[at + n]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@compiled
def _read_day(p: Bytes, at: int) -> int:
    """`YYYY-MM-DD` as days since 1970-01-01; ten bytes are there."""
    year, month, day = _digits(p, at, 4), _digits(p, at + 5, 2), _digits(p, at + 8, 2)
    if p[at + 4] != _MINUS or p[at + 7] != _MINUS or year < 1 or month < 1 or month > 12 or day < 1:
        return _NO_DAY
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    last = (29 if leap else 28) if month == 2 else 30 if month in (4, 6, 9, 11) else 31
    if day > last:
        return _NO_DAY
    # Years that begin in March put the leap day last; 306 days lie between that start and the next January.
    since_march = year - (1 if month <= 2 else 0)
    months = month - 3 if month > 2 else month + 9
    return (
        since_march * 365
        + since_march // 4
        - since_march // 100
        + since_march // 400
        + ((153 * months + 2) // 5 + day - 1 - 719_468)
    )


@compiled
def _read_timestamp(p: Bytes, at: int, stop: int) -> tuple[int, int]:
    """`YYYY-MM-DDTHH:MM:SS[.f{1,6}]` and a zone: whether it is one, and microseconds since 1970 in UTC."""
    if stop - at < 20 or p[at + 10] != 84 or p[at + 13] != _COLON or p[at + 16] != _COLON:
        return _WRONG, 0
    day, hour = _read_day(p, at), _digits(p, at + 11, 2)
    minute, second = _digits(p, at + 14, 2), _digits(p, at + 17, 2)
    if day == _NO_DAY or not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return _WRONG, 0
    value = day * _DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000
    at += 19
    if p[at] == _POINT:
        first, unit = at + 1, 100_000
        at += 1
        while at < stop and 48 <= p[at] <= 57 and unit > 0:
            value, unit, at = value + (int(p[at]) - 48) * unit, unit // 10, at + 1
        if at == first or at == stop:
            return _WRONG, 0
    if p[at] == 90:
        return (PRESENT if at + 1 == stop else _WRONG), value
    if stop - at != 6 or (p[at] != _PLUS and p[at] != _MINUS) or p[at + 3] != _COLON:
        return _WRONG, 0
    hour, minute = _digits(p, at + 1, 2), _digits(p, at + 4, 2)
    ahead = (hour * 60 + minute) * 60_000_000
    value += ahead if p[at] == _MINUS else -ahead
    sound = 0 <= hour < 24 and 0 <= minute < 60
    return (PRESENT if sound and _DAYS_FIRST <= value // _DAY_US <= _DAYS_LAST else _WRONG), value


@compiled
def _of_string(
    p: Bytes, at: int, kind: int, precision: int, scale: int, text: tuple[int, int, int]
) -> tuple[int, int, int]:
    """What a field of this kind makes of a string: status and two words. An escaped one is told by its size."""
    stop, flags, size = text
    if kind == STRING:
        return (_WRONG if flags & _UNSTORABLE else PRESENT), at, (-size - 1 if flags else size)
    if kind == BOOLEAN or kind == INTEGER or kind == DOUBLE:
        return _WRONG, 0, 0
    if flags:
        return _LEFT, 0, 0
    if kind == DECIMAL:
        after, status, low, high = _read_decimal(p, at, stop, precision, scale)
        return (status if after == stop else _WRONG), low, high
    if kind == DATE:
        day = _read_day(p, at) if stop - at == 10 else _NO_DAY
        return (_WRONG if day == _NO_DAY else PRESENT), day, 0
    status, value = _read_timestamp(p, at, stop)
    return status, value, 0


@compiled
def _of_number(p: Bytes, at: int, end: int, kind: int, precision: int, scale: int) -> tuple[int, int, int, int]:
    """Past a number (-1: none), and what a field of this kind makes of it."""
    if kind == DECIMAL:
        return _read_decimal(p, at, end, precision, scale)
    after, negative, mantissa, digits, fraction, whole, exponent = _read_number(p, at, end)
    if after < 0:
        return -1, _WRONG, 0, 0
    if kind == INTEGER:
        most = _LONG_MAX >> np.uint64(64 - precision)
        fits = whole and digits <= 19 and mantissa <= most + (_1 if negative else _0)
        value = np.int64(~mantissa + _1 if negative else mantissa)
        return after, (PRESENT if fits else _WRONG), value, 0
    if kind != DOUBLE:
        return after, _WRONG, 0, 0
    power = exponent - fraction
    if digits == 0 or (digits <= 19 and mantissa <= _EXACT_MAX and -22 <= power <= 22):
        # Both factors are exact doubles, so one operation rounds once.
        value = np.float64(mantissa)
        if digits:
            value = value * _EXACT_TENS[power] if power >= 0 else value / _EXACT_TENS[-power]
        return after, PRESENT, np.float64(-value if negative else value).view(np.int64), 0
    return after, AS_TEXT, at, after - at


@compiled
def _read_value(
    p: Bytes, at: int, end: int, kind: int, precision: int, scale: int, stack: Bytes
) -> tuple[int, int, int, int]:
    """Past the value of a declared field (-1: not JSON), its status, and two words."""
    if p[at] == _QUOTE:
        text = _read_string(p, at + 1, end)
        if text[0] < 0:
            return -1, _WRONG, 0, 0
        status, low, high = _of_string(p, at + 1, kind, precision, scale, text)
        return text[0] + 1, status, low, high
    if p[at] == _MINUS or 48 <= p[at] <= 57:
        return _of_number(p, at, end, kind, precision, scale)
    if p[at] == _BRACE or p[at] == _BRACKET:
        return _skip_value(p, at, end, 1, stack), _WRONG, 0, 0
    after, which = _read_literal(p, at, end)
    if which == 0:
        return after, ABSENT, 0, 0
    return after, (PRESENT if kind == BOOLEAN else _WRONG), which - 1, 0


@compiled
def _same(p: Bytes, at: int, q: Bytes, start: int, size: int) -> bool:
    for n in range(size):
        if p[at + n] != q[start + n]:
            return False
    return True


@compiled
def _hash(p: Bytes, at: int, size: int) -> int:
    value = _FNV_START
    for n in range(size):
        value = (value ^ np.uint64(p[at + n])) * _FNV
    return value ^ (value >> _32)


@compiled
def _find_column(p: Bytes, at: int, size: int, names: Bytes, name_starts: Int64s) -> int:
    for column in range(name_starts.size - 1):
        start = name_starts[column]
        if name_starts[column + 1] - start == size and _same(p, at, names, start, size):
            return column
    return -1


@compiled
def scan(
    p: Bytes,
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
    column's words are its values; of a decimal low and high word in turn; of a string its starts, then its sizes, where
    -1 - size says that it holds escapes.
    Keys mostly come as they came in the record before: each is compared with the one at its place there first.
    """
    count, columns = starts.size, name_starts.size - 1
    stack = np.zeros(DEPTH_MAX + 1, np.uint8)
    seen = np.full(columns, -1, np.int64)
    order = np.full((UNKNOWN_MAX, 3), -1, np.int64)  # of each key of the record before: start, size, column
    order_hash = np.zeros(UNKNOWN_MAX, np.uint64)
    slot_record = np.full(_SLOTS, -1, np.int64)  # the unknown keys of this record, by hash
    slot_key = np.zeros((_SLOTS, 2), np.int64)
    slot_hash = np.zeros(_SLOTS, np.uint64)
    for i in range(count):
        if lengths[i] < 0:
            problem[i] = NULL_VALUE
            continue
        at, end = starts[i], starts[i] + lengths[i]
        at = _space(p, at, end)
        if at >= end or p[at] != _BRACE:
            at = _skip_value(p, at, end, 0, stack)
            problem[i] = NOT_AN_OBJECT if at >= 0 and _space(p, at, end) == end else NOT_JSON
            continue
        wrong, repeated, unusual, unknown, k = columns, False, False, 0, 0
        at = _space(p, at + 1, end)
        closed = at < end and p[at] == _BRACE + 2
        while not closed:
            if at >= end or p[at] != _QUOTE:
                break
            key = at + 1
            place = min(k, UNKNOWN_MAX - 1)
            size = order[place, 1]
            if size >= 0 and key + size < end and p[key + size] == _QUOTE and _same(p, key, p, order[place, 0], size):
                column, hashed = order[place, 2], order_hash[place]
            else:
                stop, flags, size = _read_string(p, key, end)
                if stop < 0:
                    break
                size = stop - key
                unusual = unusual or flags != 0
                hashed = _hash(p, key, size)
                column = _find_column(p, key, size, names, name_starts)
                order[place, 0], order[place, 1], order[place, 2] = key, (-1 if flags else size), column
                order_hash[place] = hashed
            k += 1
            at = _space(p, key + size + 1, end)
            if at >= end or p[at] != _COLON:
                break
            at = _space(p, at + 1, end)
            if at >= end:
                break
            if column >= 0:
                repeated = repeated or seen[column] == i
                seen[column] = i
                at, status, low, high = _read_value(
                    p, at, end, shapes[column, 0], shapes[column, 1], shapes[column, 2], stack
                )
                if status > 0:
                    valid[column, i] = status
                    if shapes[column, 0] == DECIMAL:
                        words[column, 2 * i], words[column, 2 * i + 1] = low, high
                    else:
                        words[column, i], words[column, count + i] = low, high
                elif status == _WRONG:
                    wrong = min(wrong, column)
                elif status == _LEFT:
                    unusual = True
            else:
                unknown += 1
                unusual = unusual or unknown > UNKNOWN_MAX
                slot = np.int64(hashed & np.uint64(_SLOTS - 1))
                while slot_record[slot] == i and not unusual:
                    if (
                        slot_hash[slot] == hashed
                        and slot_key[slot, 1] == size
                        and _same(p, key, p, slot_key[slot, 0], size)
                    ):
                        repeated = True
                        break
                    slot = (slot + 1) & (_SLOTS - 1)
                slot_record[slot], slot_hash[slot] = i, hashed
                slot_key[slot, 0], slot_key[slot, 1] = key, size
                at = _skip_value(p, at, end, 1, stack)
            if at < 0:
                break
            at = _space(p, at, end)
            if at >= end:
                break
            closed = p[at] == _BRACE + 2
            if not closed:
                if p[at] != _COMMA:
                    break
                at = _space(p, at + 1, end)
        if not closed or _space(p, at + 1, end) != end:
            problem[i] = NOT_JSON
        elif unusual:
            problem[i] = UNUSUAL
        elif repeated:
            problem[i] = REPEATED_KEY
        elif wrong < columns:
            problem[i] = WRONG_FIELD
            field[i] = wrong


@compiled
def _unescape(p: Bytes, at: int, out: Bytes, to: int, to_end: int) -> None:
    """Decode a string that `_read_string` found sound."""
    while to < to_end:
        if p[at] != _BACKSLASH:
            out[to] = p[at]
            at, to = at + 1, to + 1
            continue
        character, size = _escape(p, at, p.size)
        at += size
        more = _encoded_size(character) - 1
        lead = 0 if more == 0 else (0xFF << (7 - more)) & 0xFF
        out[to] = lead | (character >> (6 * more))
        for n in range(1, more + 1):
            out[to + n] = 0x80 | ((character >> (6 * (more - n))) & 0x3F)
        to += more + 1


@compiled
def gather(
    p: Bytes, side: Bytes, words: Int64s, valid: Bytes, wanted: int, offsets: npt.NDArray[np.int32], out: Bytes
) -> None:
    """Copy the text of a column's rows whose `valid` is `wanted` into `out`; a start below 0 counts from -1 in `side`."""
    count = valid.size
    for i in range(count):
        if valid[i] == wanted:
            start, size, to = words[i], words[count + i], np.int64(offsets[i])
            source, at = (side, -1 - start) if start < 0 else (p, start)
            if size < 0:
                _unescape(source, at, out, to, np.int64(offsets[i + 1]))
            else:
                for n in range(size):
                    out[to + n] = source[at + n]
