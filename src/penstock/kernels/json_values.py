"""Read the value of a declared field: exactly of its type, or not at all.

A value is two words, of which most types use the first: an integer, boolean, day or microseconds; the bits of a double;
the low and high word of a decimal; start and size of a string, where -1 - size says that it holds escapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.kernels.compiled import compiled, signed, word
from penstock.kernels.json_text import (
    BRACE,
    BRACKET,
    COLON,
    MINUS,
    PLUS,
    POINT,
    QUOTE,
    UNSTORABLE,
    Pointer,
    read_literal,
    read_number,
    read_string,
    skip_value,
)

STRING, BOOLEAN, INTEGER, DOUBLE, DECIMAL, DATE, TIMESTAMP = 0, 1, 2, 3, 4, 5, 6
ABSENT, PRESENT, AS_TEXT, WRONG, LEFT = 0, 1, 2, -1, -2
"""Of a field: null; a value; a double whose text has that start and size; not of its type; left to plain Python."""

EXPONENT_MAX = 100
_NO_DAY = -(1 << 40)
_DAY_US = 86_400_000_000
_DAYS_FIRST, _DAYS_LAST = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, counted from 1970-01-01
_LOW, _LONG_MAX, _EXACT_MAX = word(0xFFFFFFFF), word((1 << 63) - 1), word(1 << 53)
_0, _1, _TEN, _32 = word(0), word(1), word(10), word(32)
_EXACT_TENS = np.array([10.0**n for n in range(23)])
_WHOLE_TENS = np.array([10**n for n in range(20)], dtype=np.uint64)


@compiled
def _times_ten(high: int, low: int) -> tuple[int, int]:
    """128 bits, as two words."""
    lower = (low & _LOW) * _TEN
    upper = (low >> _32) * _TEN + (lower >> _32)
    return high * _TEN + (upper >> _32), (upper << _32) | (lower & _LOW)


@compiled
def _wide(p: Pointer, at: int, after: int) -> tuple[int, int]:
    """The digits of a number that has at most 38 of them, in 128 bits."""
    high, low = _0, _0
    while at < after and p[at] < 58:  # an `e` ends them
        if p[at] >= 48:
            high, low = _times_ten(high, low)
            digit = word(p[at] - 48)
            high, low = high + (_1 if low + digit < low else _0), low + digit
        at += 1
    return high, low


@compiled
def _read_decimal(p: Pointer, at: int, end: int, precision: int, scale: int) -> tuple[int, int, int, int]:
    after, negative, low, digits, fraction, _whole, exponent = read_number(p, at, end)
    if after < 0:
        return -1, WRONG, 0, 0
    kept = max(0, fraction - exponent)
    added = max(0, exponent - fraction)
    fits = kept <= scale and (digits == 0 or digits + added - kept <= precision - scale)
    if not fits or exponent > EXPONENT_MAX or exponent < -EXPONENT_MAX:
        return after, WRONG, 0, 0
    steps, high = (added + scale - kept if digits else 0), _0
    if digits > 19:
        high, low = _wide(p, at, after)
    if digits + steps <= 19:
        low, steps = low * _WHOLE_TENS[steps], 0
    for _ in range(steps):
        high, low = _times_ten(high, low)
    if negative:
        high, low = ~high + (_1 if low == _0 else _0), ~low + _1
    return after, PRESENT, signed(low), signed(high)


@compiled
def _digits(p: Pointer, at: int, count: int) -> int:
    """The number that `count` digits spell, or less than 0 where one is no digit."""
    value = 0
    for n in range(count):
        digit = int(p[at + n]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@compiled
def _read_day(p: Pointer, at: int) -> int:
    """`YYYY-MM-DD` as days since 1970-01-01; ten bytes are there."""
    year, month, day = _digits(p, at, 4), _digits(p, at + 5, 2), _digits(p, at + 8, 2)
    if p[at + 4] != MINUS or p[at + 7] != MINUS or year < 1 or month < 1 or month > 12 or day < 1:
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
def _read_timestamp(p: Pointer, at: int, stop: int) -> tuple[int, int]:
    """`YYYY-MM-DDTHH:MM:SS[.f{1,6}]` and a zone: whether it is one, and microseconds since 1970 in UTC."""
    if stop - at < 20 or p[at + 10] != 84 or p[at + 13] != COLON or p[at + 16] != COLON:
        return WRONG, 0
    day, hour = _read_day(p, at), _digits(p, at + 11, 2)
    minute, second = _digits(p, at + 14, 2), _digits(p, at + 17, 2)
    if day == _NO_DAY or not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return WRONG, 0
    value = day * _DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000
    at += 19
    if p[at] == POINT:
        first, unit = at + 1, 100_000
        at += 1
        while at < stop and 48 <= p[at] <= 57 and unit > 0:
            value, unit, at = value + (int(p[at]) - 48) * unit, unit // 10, at + 1
        if at in (first, stop):
            return WRONG, 0
    if p[at] == 90:
        return (PRESENT if at + 1 == stop else WRONG), value
    if stop - at != 6 or (p[at] != PLUS and p[at] != MINUS) or p[at + 3] != COLON:
        return WRONG, 0
    hour, minute = _digits(p, at + 1, 2), _digits(p, at + 4, 2)
    ahead = (hour * 60 + minute) * 60_000_000
    value += ahead if p[at] == MINUS else -ahead
    sound = 0 <= hour < 24 and 0 <= minute < 60
    return (PRESENT if sound and _DAYS_FIRST <= value // _DAY_US <= _DAYS_LAST else WRONG), value


@compiled
def _of_string(
    p: Pointer, at: int, kind: int, precision: int, scale: int, text: tuple[int, int, int]
) -> tuple[int, int, int]:
    """What a field of this kind makes of a string: status and two words. An escaped one is told by its size."""
    stop, flags, size = text
    if kind == STRING:
        return (WRONG if flags & UNSTORABLE else PRESENT), at, (-size - 1 if flags else size)
    if kind in (BOOLEAN, INTEGER, DOUBLE):
        return WRONG, 0, 0
    if flags:
        return LEFT, 0, 0
    if kind == DECIMAL:
        after, status, low, high = _read_decimal(p, at, stop, precision, scale)
        return (status if after == stop else WRONG), low, high
    if kind == DATE:
        day = _read_day(p, at) if stop - at == 10 else _NO_DAY
        return (WRONG if day == _NO_DAY else PRESENT), day, 0
    status, value = _read_timestamp(p, at, stop)
    return status, value, 0


@compiled
def _of_number(p: Pointer, at: int, end: int, kind: int, precision: int, scale: int) -> tuple[int, int, int, int]:
    """Past a number (-1: none), and what a field of this kind makes of it."""
    if kind == DECIMAL:
        return _read_decimal(p, at, end, precision, scale)
    after, negative, mantissa, digits, fraction, whole, exponent = read_number(p, at, end)
    if after < 0:
        return -1, WRONG, 0, 0
    if kind == INTEGER:
        most = _LONG_MAX >> word(64 - precision)
        fits = whole and digits <= 19 and mantissa <= most + (_1 if negative else _0)
        value = signed(~mantissa + _1 if negative else mantissa)
        return after, (PRESENT if fits else WRONG), value, 0
    if kind != DOUBLE:
        return after, WRONG, 0, 0
    power = exponent - fraction
    if digits == 0 or (digits <= 19 and mantissa <= _EXACT_MAX and -22 <= power <= 22):
        # Both factors are exact doubles, so one operation rounds once.
        double: Any = np.float64(mantissa)
        if digits:
            double = double * _EXACT_TENS[power] if power >= 0 else double / _EXACT_TENS[-power]
        return after, PRESENT, np.float64(-double if negative else double).view(signed), 0
    return after, AS_TEXT, at, after - at


@compiled
def read_value(
    p: Pointer, at: int, end: int, kind: int, precision: int, scale: int, stack: Pointer
) -> tuple[int, int, int, int]:
    """Past the value of a declared field (-1: not JSON), its status, and two words."""
    if p[at] == QUOTE:
        text = read_string(p, at + 1, end)
        if text[0] < 0:
            return -1, WRONG, 0, 0
        status, low, high = _of_string(p, at + 1, kind, precision, scale, text)
        return text[0] + 1, status, low, high
    if p[at] == MINUS or 48 <= p[at] <= 57:
        return _of_number(p, at, end, kind, precision, scale)
    if p[at] == BRACE or p[at] == BRACKET:
        return skip_value(p, at, end, 1, stack), WRONG, 0, 0
    after, which = read_literal(p, at, end)
    if which == 0:
        return after, ABSENT, 0, 0
    return after, (PRESENT if kind == BOOLEAN else WRONG), which - 1, 0
