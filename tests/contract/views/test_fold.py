"""What a view shows after several batches: the groups and numbers are worked out by hand."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from penstock.core.clock import RealClock
from penstock.core.declared import Aggregate, AggregateKind, ColumnType, FoldView, Key, Measure, Window, parse_schema
from penstock.core.errors import CallerError
from penstock.core.units import DurationUs
from penstock.views import read, schema
from penstock.views.commit import commit
from penstock.views.connection import Database
from tests.contract.views.scripts import ACCOUNT_VIEW, VIEW, account_partial, batch, definition, take

CLOCK = RealClock()
STAMP = pa.timestamp("us", tz="UTC")


def kind(text: str) -> ColumnType:
    return parse_schema(f"x {text}")[0].type


def run(database: Database, view: FoldView, parts: Sequence[pa.Table]) -> tuple[tuple[object, ...], ...]:
    """Commit each partial as a batch of its own and read the view."""
    registered = take(database, definition(views=(view,)))
    for number, part in enumerate(parts, start=1):
        commit(database, registered, batch(number, number, number + 1, folds={view.name: part}), clock=CLOCK)
    return read.rows(database, view.name).rows


def one_measure(aggregate: AggregateKind, column: str, *, keys: Mapping[str, str] | None = None) -> FoldView:
    found = tuple(Key(name, kind(text)) for name, text in (keys or {}).items())
    return FoldView("v", "billable", None, found, (Measure("m", Aggregate(aggregate, "x"), kind(column)),))


def values(column: str, items: Sequence[object], *, counts: Sequence[int] | None = None) -> pa.Table:
    """Partials of the single group of a view without keys, one table of one row."""
    types = {
        "string": pa.string(),
        "bigint": pa.decimal128(38, 0),
        "double": pa.float64(),
        "float": pa.float32(),
        "date": pa.date32(),
        "timestamp": STAMP,
        "boolean": pa.bool_(),
    }
    wanted = types.get(column) or pa.decimal128(38, kind(column).scale)
    count = list(counts) if counts else [0 if item is None else 1 for item in items]
    return pa.table(
        {
            "rows": pa.array([1] * len(items), pa.int64()),
            "v0": pa.array(items, wanted),
            "n0": pa.array(count, pa.int64()),
        }
    )


def test_v2_null_and_long_and_strange_keys_are_keys_like_any_other(database: Database) -> None:
    names = [None, "", "NULL", '"', "\\", "a,b", "{}", "'", "é\U0001f600", "x" * 10_000, "\n", "(a)", "\\N"]
    parts = [account_partial([(name, 1, "1.00", 1) for name in names]) for _ in range(2)]
    rows = run(database, ACCOUNT_VIEW, parts)
    assert [row[0] for row in rows] == [*sorted(name for name in names if name is not None), None]
    assert {row[1] for row in rows} == {2}


def test_v2_keys_of_every_type_meet_again_in_the_next_batch(database: Database) -> None:
    keys = {
        "a": "boolean",
        "b": "tinyint",
        "c": "bigint",
        "d": "double",
        "e": "decimal(10,3)",
        "f": "date",
        "g": "timestamp",
        "h": "string",
        "i": "float",
    }
    view = FoldView("v", "billable", None, tuple(Key(n, kind(t)) for n, t in keys.items()), ACCOUNT_VIEW.measures[:1])
    early, late = dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
    rows: list[tuple[object, ...]] = [
        (False, -128, -(2**63), 5e-324, Decimal("-0.001"), dt.date(1, 1, 1), early, "a", 0.1),
        (True, 127, 2**63 - 1, 1.7976931348623157e308, Decimal("9999999.999"), dt.date(9999, 12, 31), late, "b", 0.5),
        (None,) * 9,
    ]
    arrow = [
        pa.bool_(),
        pa.int8(),
        pa.int64(),
        pa.float64(),
        pa.decimal128(10, 3),
        pa.date32(),
        STAMP,
        pa.string(),
        pa.float32(),
    ]
    part = pa.table({name: pa.array([row[i] for row in rows], arrow[i]) for i, name in enumerate(keys)})
    ones = pa.array([1] * 3, pa.int64())
    part = part.append_column("rows", ones).append_column("v0", ones)
    assert run(database, view, [part, part]) == tuple((*row, 2) for row in rows)


def test_v2_columns_may_be_called_like_ours_or_like_nothing_else(database: Database) -> None:
    names = ["key", "rows", "k1", "v0", 'say "no"', "100%s", "Ünïcode", "select"]
    keys = tuple(Key(name, kind("string")) for name in names)
    view = FoldView('View "%s"', "billable", None, keys, (Measure("n0", Aggregate("count"), kind("bigint")),))
    ones = pa.array([1], pa.int64())
    part = pa.Table.from_arrays([*(pa.array([name]) for name in names), ones, ones], names=[*names, "rows", "v0"])
    assert run(database, view, [part, part]) == ((*names, 2),)


def test_a_name_that_postgres_would_cut_is_refused(database: Database) -> None:
    with pytest.raises(CallerError, match="view-name-long"):
        take(database, definition(views=(dataclasses.replace(ACCOUNT_VIEW, name="é" * 32),)))


def test_v2_windows_stand_beside_the_keys(database: Database) -> None:
    window = Window("at", DurationUs(60_000_000))
    view = dataclasses.replace(ACCOUNT_VIEW, window=window, measures=ACCOUNT_VIEW.measures[:1])
    start = dt.datetime(1969, 12, 31, 23, 59, tzinfo=dt.UTC)
    end = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    one = pa.array([1], pa.int64())
    part = pa.table(
        {
            "window_start": pa.array([start], STAMP),
            "window_end": pa.array([end], STAMP),
            "account": ["acme"],
            "rows": one,
            "v0": one,
        }
    )
    assert run(database, view, [part, part]) == ((start, end, "acme", 2),)
    assert read.show(database, VIEW)["rows"] == [
        {
            "window_start": "1969-12-31T23:59:00Z",
            "window_end": "1970-01-01T00:00:00Z",
            "account": "acme",
            "requests": 2,
        }
    ]


def test_v2_a_sum_over_no_value_is_null_until_a_value_comes(database: Database) -> None:
    nothing = account_partial([("acme", 2, None, 0)])
    assert run(database, ACCOUNT_VIEW, [nothing, nothing]) == (("acme", 4, None, None),)
    registered = take(database)
    some = account_partial([("acme", 1, "0.00", 1)])
    commit(database, registered, batch(3, 3, 4, folds={VIEW: some}), clock=CLOCK)
    assert read.show(database, VIEW)["rows"] == [
        {"account": "acme", "requests": 5, "amount": "0.00", "mean": "0.000000"}
    ]


@pytest.mark.parametrize(
    ("sums", "counts", "mean"),
    [
        (["0.01"], [8], "0.001250"),
        (["1.00"], [3], "0.333333"),
        (["2.00"], [3], "0.666667"),
        (["-2.00"], [3], "-0.666667"),
        (["0.01"], [20_000], "0.000001"),  # 0.0000005: half goes away from zero
        (["-0.01"], [20_000], "-0.000001"),
        (["0.01"], [20_001], "0.000000"),  # 0.00000049997...
        (["0.07", "-0.07"], [1, 1], "0.000000"),
        (["999999999999999999999999999999999999.99"], [1], "999999999999999999999999999999999999.990000"),
        (["100000000000000000000000000000000000.00"], [3], "33333333333333333333333333333333333.333333"),
    ],
)
def test_v2_an_average_is_rounded_half_away_from_zero(
    database: Database, sums: list[str], counts: list[int], mean: str
) -> None:
    view = one_measure("avg", "decimal(38,2)")
    parts = [values("decimal(38,2)", [Decimal(s)], counts=[n]) for s, n in zip(sums, counts, strict=True)]
    run(database, view, parts)
    assert read.show(database, "v")["rows"] == [{"m": mean}]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(-(10**37), 10**37), st.integers(1, 10**12), st.sampled_from([0, 2, 18]))
def test_v2_an_average_is_the_exact_fraction_rounded_once(url: str, units: int, count: int, scale: int) -> None:
    expected = _rounded(Fraction(units, 10**scale * count), places=scale + 4)
    view = one_measure("avg", f"decimal(38,{scale})")
    shown = schema.shown(view.measures[0], at=0)
    with Database(url) as database:
        query = sql.SQL("SELECT {} FROM (SELECT %s::numeric AS v0, %s::bigint AS n0) AS t").format(shown)
        row = database.connection.execute(query, (Decimal(f"{units}E-{scale}"), count)).fetchone()
    assert row is not None
    assert Fraction(row[0]) == expected


def _rounded(value: Fraction, *, places: int) -> Fraction:
    units = abs(value) * 10**places
    whole = units.numerator // units.denominator
    whole += 1 if (units - whole) * 2 >= 1 else 0
    return Fraction(whole if value >= 0 else -whole, 10**places)


def test_v2_a_sum_of_integers_stays_exact_past_64_bits(database: Database) -> None:
    big = 2**63 - 1
    view = one_measure("sum", "bigint")
    assert run(database, view, [values("bigint", [big]), values("bigint", [big])]) == ((2 * big,),)
    assert type(read.rows(database, "v").rows[0][0]) is int


@pytest.mark.parametrize(
    ("column", "items", "least", "greatest"),
    [
        ("string", ["b", "B", "é", "Z", None], "B", "é"),  # by code point, whatever the locale
        ("double", [0.5, -1e300, None, 1e300], -1e300, 1e300),
        ("decimal(10,2)", [Decimal("2.00"), Decimal("10.00")], Decimal("2.00"), Decimal("10.00")),
        ("date", [dt.date(2026, 1, 2), None, dt.date(1, 1, 1)], dt.date(1, 1, 1), dt.date(2026, 1, 2)),
        ("boolean", [True, False], False, True),
        ("string", [None, None], None, None),
    ],
)
def test_v2_min_and_max_pass_over_nulls(
    database: Database, column: str, items: list[object], least: object, greatest: object
) -> None:
    measures = tuple(Measure(name, Aggregate(name, "x"), kind(column)) for name in ("min", "max"))
    view = FoldView("v", "billable", None, (), measures)
    parts = []
    for item in items:
        part = values(column, [item])
        parts.append(part.append_column("v1", part["v0"]).append_column("n1", part["n0"]))
    assert run(database, view, parts) == ((least, greatest),)


def test_a_view_of_many_groups_takes_several_statements(database: Database) -> None:
    names = [f"account {i:06}" for i in range(20_001)]
    part = account_partial([(name, 1, "1.00", 1) for name in names])
    rows = run(database, ACCOUNT_VIEW, [part, part])
    assert [row[:2] for row in rows] == [(name, 2) for name in names]
