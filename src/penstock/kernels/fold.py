"""Fold rows into one partial result per group, and partial results into one.

O1   The fold of all rows equals the merge of the folds of any parts of them.
O3   Groups come in the order of their first row, so the same rows give the same bytes.

A partial result has the key columns (`window_start` and `window_end` first where there is a window; null is a key like
any other), then `rows`, the sum of the weights, and for the measure of place i:
    count      v{i} = sum of the weights
    sum, avg   v{i} = sum of weight times value, 0 where there is none; n{i} = sum of the weights of values
    min, max   v{i} = least or greatest value, null where there is none; n{i} as above
Sums are exact: integers and decimals of up to 28 digits are added in 38 digits, others in 76, so no number of rows that
fits in memory makes them wrap. Text is compared by code point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.declared import FLOATS, INTEGERS, AggregateKind, ColumnType, FoldView, Measure, Window
from penstock.core.errors import CallerError, fail
from penstock.core.invariant import invariant
from penstock.kernels.columns import arrow_type

AVERAGE_DIGITS = 4
"""An average has this many fraction digits more than its column."""
_ROWS_DIGITS = 10  # more than ten thousand million rows are never in one call
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Years 1 to 9999."""
_STAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Exact:
    """A number with this many fraction digits, and as many integer digits as it needs."""

    scale: int


def check_measure(kind: AggregateKind, column: ColumnType) -> None:
    """Refuse what has no exact answer, when the pipeline is planned.

    >>> check_measure("sum", ColumnType("decimal", 18, 6))
    """
    if kind in ("sum", "avg") and column.name in FLOATS:
        raise fail(CallerError, "float-sum-refused", aggregate=kind, type=column)
    if kind in ("sum", "avg") and column.name not in INTEGERS and column.name != "decimal":
        raise fail(CallerError, "aggregate-needs-number", aggregate=kind, type=column)


def measure_type(measure: Measure) -> ColumnType | Exact:
    """What readers see: `avg` is sum / count, rounded half away from zero to its scale.

    >>> from penstock.core.declared import Aggregate
    >>> measure_type(Measure("mean", Aggregate("avg", "price"), ColumnType("decimal", 18, 6)))
    Exact(scale=10)
    """
    match measure.aggregate.kind:
        case "count":
            return ColumnType("long")
        case "sum":
            return Exact(measure.type.scale)
        case "avg":
            return Exact(measure.type.scale + AVERAGE_DIGITS)
        case "min" | "max":
            return measure.type


def fold(rows: pa.Table, view: FoldView) -> pa.Table:
    """Fold rows of the view's stream, each with its weight in `_penstock`, into a partial result."""
    weights = pc.struct_field(rows["_penstock"], "weight").cast(pa.int64())
    signs = set(pc.unique(weights).to_pylist())
    invariant(signs <= {1, -1}, "a change weighs 1 or -1", view=view.name, weights=signs)
    columns = {key.name: _steady(rows[key.name]) for key in view.keys}
    if view.window:
        columns = {"window_start": _window_start(rows[view.window.column], view.window, view.name), **columns}
    columns["rows"] = weights
    for index, measure in enumerate(view.measures):
        if measure.aggregate.column is not None:
            values = rows[measure.aggregate.column]
            retracted = pc.less(weights, 0) if -1 in signs else None
            columns[f"v{index}"] = _signed(values, measure, retracted, view.name)
            columns[f"n{index}"] = pc.if_else(values.is_valid(), weights, None) if values.null_count else weights
        else:
            columns[f"v{index}"] = weights
    return _grouped(pa.table(columns), view)


def merge(parts: Sequence[pa.Table], view: FoldView) -> pa.Table:
    """Fold partial results of one view into one; the order of the parts changes the order of the groups alone."""
    return _grouped(pa.concat_tables(parts), view)


def outside_calendar(times: pa.ChunkedArray, window: Window) -> pa.Array:
    """Which times have a window that no calendar of years 1 to 9999 holds, so that no reader could be shown it."""
    stamps = times.cast(_STAMP).cast(pa.int64()).to_numpy()
    starts = stamps // window.size_us * window.size_us
    return pa.array((starts < _FIRST_US) | (starts > _LAST_US - window.size_us))


def _window_start(times: pa.ChunkedArray, window: Window, view: str) -> pa.Array:
    invariant(times.null_count == 0, "an accepted event has a time", view=view, column=window.column)
    stamps = times.cast(_STAMP).cast(pa.int64()).to_numpy()
    return pa.array(stamps // window.size_us * window.size_us).cast(_STAMP)


def _steady(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """One zero only: `-0.0` and `0.0` are the same key, and neither is less."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def _signed(values: pa.ChunkedArray, measure: Measure, retracted: pa.ChunkedArray | None, view: str) -> pa.ChunkedArray:
    """The values as they are added, or compared."""
    if measure.aggregate.kind in ("min", "max"):
        invariant(
            retracted is None, "least and greatest are of streams without retractions", view=view, measure=measure.name
        )
        return _steady(values.cast(arrow_type(measure.type)))
    values = values.cast(_sum_type(measure.type))
    return values if retracted is None else pc.if_else(retracted, pc.negate(values), values)


def _sum_type(column: ColumnType) -> pa.DataType:
    roomy = column.precision + _ROWS_DIGITS <= 38
    return pa.decimal128(38, column.scale) if roomy else pa.decimal256(76, column.scale)


def _grouped(table: pa.Table, view: FoldView) -> pa.Table:
    keys = [key.name for key in view.key_columns if key.name != "window_end"]
    steps = [("rows", "sum", pc.ScalarAggregateOptions(min_count=0))]
    for index, measure in enumerate(view.measures):
        step = measure.aggregate.kind if measure.aggregate.kind in ("min", "max") else "sum"
        steps.append((f"v{index}", step, pc.ScalarAggregateOptions(min_count=1 if step != "sum" else 0)))
        if measure.aggregate.column is not None:
            steps.append((f"n{index}", "sum", pc.ScalarAggregateOptions(min_count=0)))
    greatest = [f"v{i}" for i, m in enumerate(view.measures) if m.aggregate.kind == "max" and m.type.name in FLOATS]
    for name in greatest:
        table = table.append_column(f"{name}_is_nan", pc.is_nan(table[name]))
        steps.append((f"{name}_is_nan", "any", pc.ScalarAggregateOptions(min_count=0)))
    grouped = table.group_by(keys, use_threads=False).aggregate(steps)
    # Without a key Arrow makes one group of no row.
    grouped = grouped if table.num_rows else grouped.slice(0, 0)
    grouped = grouped.select([*keys, *(f"{name}_{step}" for name, step, _ in steps)])
    grouped = grouped.rename_columns([*keys, *(name for name, _, _ in steps)])
    for name in greatest:
        grouped = _with_greatest_nan(grouped, name)
    return _with_window_end(grouped, view.window) if view.window else grouped


def _with_greatest_nan(grouped: pa.Table, name: str) -> pa.Table:
    """NaN is greater than every number, as it is to Postgres and Spark; Arrow passes over it."""
    values = grouped[name]
    nan = pa.scalar(float("nan"), values.type)
    greatest = pc.if_else(grouped[f"{name}_is_nan"], nan, values)
    at = grouped.column_names.index(name)
    return grouped.set_column(at, name, greatest).drop_columns([f"{name}_is_nan"])


def _with_window_end(grouped: pa.Table, window: Window) -> pa.Table:
    ends = pc.add(grouped["window_start"].cast(pa.int64()), window.size_us).cast(_STAMP)
    return grouped.add_column(1, "window_end", ends)
