"""Fold rows into what a view must hold: a plain loop over Python values, exact in every sum.

V2   The second way to a view's numbers; it shares no line with the pipeline's.
Each group counts its rows by weight and is gone at zero. Sums are over integers and decimals and never rounded; an
average is rounded once, half away from zero, to four digits more than its column has. Nulls group together, and
aggregates pass over them. Text compares by code point.
Limit: groups are kept in memory, and under `min` and `max` every distinct value of a group.
Worst case: about 2 us per row and measure, whatever the order of the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import TypeAlias

from penstock.core.declared import FLOATS, INTEGERS, ColumnType, FoldView, Measure, Window
from penstock.core.errors import CallerError, fail
from penstock.core.invariant import invariant
from penstock.views.proof_decode import FLOAT32_MAX, Value, to_float32

GroupKey: TypeAlias = tuple[Value, ...]
"""One value per column of `FoldView.key_columns`, the window's bounds first."""
Folded: TypeAlias = dict[GroupKey, dict[str, Value]]

AVERAGE_DIGITS = 4
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NOT_A_NUMBER = float("nan")
# 38 digits times any count of rows fit by far; a step that would round is an error instead.
_EXACT = Context(prec=200, traps=[Inexact])


def fold(rows: Iterable[Mapping[str, object]], *, view: FoldView) -> Folded:
    """What `view` holds once all `rows` are folded; the field `weight` of a row's `_penstock` counts it, else once.

    >>> from penstock.core.declared import Aggregate, Key
    >>> requests = Measure("requests", Aggregate("count"), ColumnType("long"))
    >>> by_model = FoldView("by_model", "s", None, (Key("model", ColumnType("string")),), (requests,))
    >>> fold([{"model": "small"}, {"model": "small"}], view=by_model)
    {('small',): {'requests': 2}}
    """
    groups: dict[GroupKey, _Group] = {}
    for row in rows:
        key = group_key(row, view=view)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group([_Total() for _ in view.measures])
        group.add(row, measures=view.measures, weight=_weight(row))
    for key, group in groups.items():
        invariant(group.rows >= 0, "no row is retracted before it came", view=view.name, key=key, rows=group.rows)
    return {key: group.results(view.measures) for key, group in groups.items() if group.rows}


def group_key(row: Mapping[str, object], *, view: FoldView) -> GroupKey:
    """The group that a row belongs to."""
    window = window_of(row[view.window.column], window=view.window, view=view.name) if view.window else ()
    return (*window, *(plain(row[key.name], kind=key.type) for key in view.keys))


def window_of(event_time: object, *, window: Window, view: str) -> tuple[datetime, datetime]:
    """The window around a time: start inclusive, end exclusive, aligned to 1970 in both directions."""
    aware = isinstance(event_time, datetime) and event_time.tzinfo is not None
    invariant(aware, "an event time is a time with a zone", view=view, value=event_time)
    passed = (event_time - _EPOCH) // _MICROSECOND  # type: ignore[operator]  # the line above checked it
    try:
        start = _EPOCH + timedelta(microseconds=passed // window.size_us * window.size_us)
        return start, start + timedelta(microseconds=window.size_us)
    except OverflowError:
        raise fail(CallerError, "window-beyond-calendar", value=event_time, view=view) from None


def plain(value: object, *, kind: ColumnType) -> Value:
    """The value as comparisons need it: times in UTC, one NaN equal to itself, a float as 32 bits hold it."""
    if isinstance(value, datetime):
        invariant(value.tzinfo is not None, "a time has a zone", value=value)
        return value.astimezone(UTC)
    if isinstance(value, float):
        number = to_float32(value) if kind.name == "float" and abs(value) <= FLOAT32_MAX else value
        return _NOT_A_NUMBER if number != number else number
    known: Value = value  # type: ignore[assignment]  # all else is compared as it is
    return known


def _weight(row: Mapping[str, object]) -> int:
    mark = row.get("_penstock")
    weight = mark["weight"] if isinstance(mark, Mapping) else 1
    invariant(weight in (1, -1), "a change is an insert or a retraction", weight=weight)
    return int(weight)


@dataclass(slots=True)
class _Total:
    """One measure of one group: how many values, their exact sum, and the values that min and max choose from."""

    values: int = 0
    total: Decimal = field(default_factory=Decimal)
    kept: Counter[Value] = field(default_factory=Counter)

    def add(self, value: Value, *, measure: Measure, weight: int) -> None:
        if value is None:
            return
        self.values += weight
        if measure.aggregate.kind in ("min", "max"):
            self.kept[value] += weight
        else:
            self.total = _EXACT.fma(_exact(value, measure=measure), weight, self.total)


@dataclass(slots=True)
class _Group:
    totals: list[_Total]
    rows: int = 0

    def add(self, row: Mapping[str, object], *, measures: tuple[Measure, ...], weight: int) -> None:
        self.rows += weight
        for measure, total in zip(measures, self.totals, strict=True):
            if measure.aggregate.column is not None:
                value = plain(row[measure.aggregate.column], kind=measure.type)
                total.add(value, measure=measure, weight=weight)

    def results(self, measures: tuple[Measure, ...]) -> dict[str, Value]:
        pairs = zip(measures, self.totals, strict=True)
        return {measure.name: _result(total, measure=measure, rows=self.rows) for measure, total in pairs}


def _exact(value: Value, *, measure: Measure) -> Decimal:
    summable = isinstance(value, int | Decimal) and measure.type.name not in FLOATS
    invariant(summable, "sums are of exact numbers", measure=measure.name, value=value)
    return Decimal(value)  # type: ignore[arg-type]  # the line above checked it


def _result(total: _Total, *, measure: Measure, rows: int) -> Value:
    kind = measure.aggregate.kind
    if kind == "count":
        return rows
    if not total.values:
        return None
    if kind in ("min", "max"):
        return _extreme(total.kept, kind=kind)
    if kind == "avg":
        return _average(total, digits=measure.type.scale + AVERAGE_DIGITS)
    return int(total.total) if measure.type.name in INTEGERS else total.total


def _extreme(kept: Counter[Value], *, kind: str) -> Value:
    """NaN counts as greater than every number, as it does in Postgres and Spark."""
    invariant(min(kept.values()) >= 0, "no value is retracted before it came", values=kept.total())
    present = (value for value, weight in kept.items() if weight)
    return min(present, key=_rank) if kind == "min" else max(present, key=_rank)


def _rank(value: Value) -> tuple[bool, Value]:
    return value != value, value


def _average(total: _Total, *, digits: int) -> Decimal:
    exact = Fraction(total.total) / total.values * 10**digits
    rounded = int(abs(exact) + Fraction(1, 2))
    return Decimal((int(exact < 0), tuple(int(digit) for digit in str(rounded)), -digits))
