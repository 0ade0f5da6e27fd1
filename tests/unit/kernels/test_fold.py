"""Folds worked out by hand, and against exact arithmetic over the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.declared import Aggregate, ColumnType, FoldView, Key, Measure, Window, parse_schema
from penstock.core.errors import BugError, CallerError
from penstock.core.units import DurationUs
from penstock.kernels.columns import arrow_type
from penstock.kernels.fold import Exact, check_measure, fold, measure_type, merge, outside_calendar

MINUTE = Window("at", DurationUs(60_000_000))
QUANTITY = ColumnType("decimal", 18, 6)
STRING = ColumnType("string")


def view(*measures: Measure, keys: str = "account string", window: Window | None = None) -> FoldView:
    columns = parse_schema(keys) if keys else ()
    return FoldView("usage", "billable", window, tuple(Key(c.name, c.type) for c in columns), measures)


def count() -> Measure:
    return Measure("requests", Aggregate("count"), ColumnType("long"))


def of(kind: str, column: str, column_type: ColumnType) -> Measure:
    return Measure(f"{kind}_{column}", Aggregate(kind, column), column_type)  # type: ignore[arg-type]


def rows(schema: str, *values: Sequence[object], weights: Sequence[int] | None = None) -> pa.Table:
    columns = parse_schema(schema)
    data = {c.name: pa.array([row[n] for row in values], arrow_type(c.type)) for n, c in enumerate(columns)}
    signs = pa.array(weights or [1] * len(values), pa.int32())
    return pa.table({**data, "_penstock": pa.StructArray.from_arrays([signs], names=["weight"])})


def test_a_fold_counts_sums_and_knows_how_many_values_there_were() -> None:
    shape = view(count(), of("sum", "quantity", QUANTITY), of("avg", "quantity", QUANTITY))
    folded = fold(
        rows(
            "account string, quantity decimal(18,6)",
            ("a", Decimal("1.5")),
            ("b", None),
            ("a", None),
            ("a", Decimal("-0.25")),
        ),
        shape,
    )
    assert folded.column_names == ["account", "rows", "v0", "v1", "n1", "v2", "n2"]
    assert folded.to_pylist() == [
        {"account": "a", "rows": 3, "v0": 3, "v1": Decimal("1.25"), "n1": 2, "v2": Decimal("1.25"), "n2": 2},
        {"account": "b", "rows": 1, "v0": 1, "v1": Decimal(0), "n1": 0, "v2": Decimal(0), "n2": 0},
    ]
    assert folded.schema.field("v1").type == pa.decimal128(38, 6)
    assert folded.schema.field("rows").type == pa.int64()


def test_a_retraction_takes_its_row_out() -> None:
    shape = view(count(), of("sum", "n", ColumnType("int")))
    table = rows("account string, n int", ("a", 5), ("a", 7), ("a", 5), ("a", None), weights=[1, 1, -1, -1])
    assert fold(table, shape).to_pylist() == [{"account": "a", "rows": 0, "v0": 0, "v1": Decimal(7), "n1": 1}]


def test_least_and_greatest_pass_over_nulls_and_text_goes_by_code_point() -> None:
    shape = view(of("min", "s", STRING), of("max", "s", STRING))
    table = rows("account string, s string", ("a", "\uffff"), ("a", None), ("a", "\U00010000"), ("a", "Z"), ("b", None))
    assert fold(table, shape).to_pylist() == [
        {"account": "a", "rows": 4, "v0": "Z", "n0": 3, "v1": "\U00010000", "n1": 3},
        {"account": "b", "rows": 1, "v0": None, "n0": 0, "v1": None, "n1": 0},
    ]


def test_least_and_greatest_keep_the_type_of_their_column() -> None:
    schema = "account string, b boolean, i short, f float, d decimal(38,18), day date, at timestamp"
    kinds = {column.name: column.type for column in parse_schema(schema)[1:]}
    shape = view(*(of("min", name, kind) for name, kind in kinds.items()))
    day, at = datetime(2024, 1, 2, tzinfo=UTC).date(), datetime(2024, 1, 2, tzinfo=UTC)
    folded = fold(rows(schema, ("a", True, -3, 0.5, Decimal("0.1"), day, at)), shape)
    assert [folded.schema.field(f"v{n}").type for n in range(6)] == [arrow_type(kind) for kind in kinds.values()]
    assert list(folded.to_pylist()[0].values())[2::2] == [True, -3, 0.5, Decimal("0.1"), day, at]


def test_v2_nan_is_the_greatest_and_the_least_only_where_there_is_nothing_else_at_any_cut() -> None:
    nan = float("nan")
    shape = view(of("min", "x", ColumnType("double")), of("max", "x", ColumnType("double")))
    values = [("a", 1.0), ("a", nan), ("b", nan), ("c", 2.0), ("d", None)]
    whole = fold(rows("account string, x double", *values), shape)
    parts = merge([fold(rows("account string, x double", value), shape) for value in values], shape)
    for folded in (whole, parts):
        found = {row["account"]: (str(row["v0"]), str(row["v1"])) for row in folded.to_pylist()}
        assert found == {"a": ("1.0", "nan"), "b": ("nan", "nan"), "c": ("2.0", "2.0"), "d": ("None", "None")}


@pytest.mark.parametrize(
    ("at", "size_us", "outside"),
    [
        (datetime(9999, 12, 31, 23, 58, 59, tzinfo=UTC), 60_000_000, False),
        (datetime(9999, 12, 31, 23, 59, 0, tzinfo=UTC), 60_000_000, True),
        (datetime(1, 1, 1, tzinfo=UTC), 60_000_000, False),
        (datetime(1, 1, 1, tzinfo=UTC), 7 * 86_400_000_000, True),  # a Monday; windows of seven days begin on Thursdays
    ],
)
def test_a_window_outside_the_calendar_is_told(*, at: datetime, size_us: int, outside: bool) -> None:
    times = pa.chunked_array([pa.array([at], pa.timestamp("us", tz="UTC"))])
    assert outside_calendar(times, Window("at", DurationUs(size_us))).to_pylist() == [outside]


def test_windows_align_to_1970_before_it_too() -> None:
    shape = view(count(), keys="", window=MINUTE)
    stamps = [
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1970, 1, 1, 0, 0, 59, 999_999, tzinfo=UTC),
        datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
    ]
    folded = fold(rows("at timestamp", *((stamp,) for stamp in stamps)), shape)
    assert folded.column_names == ["window_start", "window_end", "rows", "v0"]
    assert [(row["window_start"], row["window_end"], row["rows"]) for row in folded.to_pylist()] == [
        (datetime(1969, 12, 31, 23, 59, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), 1),
        (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 1, tzinfo=UTC), 2),
        (datetime(1970, 1, 1, 0, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 2, tzinfo=UTC), 1),
    ]


def test_null_keys_are_one_group_and_both_zeros_are_one_key() -> None:
    shape = view(count(), keys="account string, f double")
    table = rows("account string, f double", (None, 0.0), (None, -0.0), ("", 0.0), (None, None))
    assert [(r["account"], r["f"], r["rows"]) for r in fold(table, shape).to_pylist()] == [
        (None, 0.0, 2),
        ("", 0.0, 1),
        (None, None, 1),
    ]


def test_sums_past_38_digits_do_not_wrap() -> None:
    most = Decimal("9" * 38)
    shape = view(of("sum", "n", ColumnType("decimal", 38, 0)), of("sum", "i", ColumnType("long")))
    table = rows("account string, n decimal(38,0), i long", *[("a", most, 2**63 - 1)] * 3)
    part = fold(table, shape)
    assert part.to_pylist()[0]["v0"] == 3 * int(most)
    assert part.to_pylist()[0]["v1"] == 3 * (2**63 - 1)
    assert merge([part, part], shape).to_pylist()[0]["v0"] == 6 * int(most)


def test_no_row_folds_to_no_group() -> None:
    for shape in (view(count()), view(count(), keys="")):
        folded = fold(rows("account string"), shape)
        assert folded.num_rows == 0
        assert merge([folded, folded], shape).num_rows == 0


def test_a_fold_without_a_key_is_one_group() -> None:
    assert fold(rows("account string", ("a",), ("b",)), view(count(), keys="")).to_pylist() == [{"rows": 2, "v0": 2}]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", None]),
            st.none() | st.decimals(-1000, 1000, places=6),
            st.sampled_from([1, -1]),
        ),
        max_size=40,
    ),
    st.integers(0, 40),
)
def test_o1_the_merge_of_any_two_parts_is_the_fold_of_all(values, cut):  # type: ignore[no-untyped-def]
    shape = view(count(), of("sum", "q", QUANTITY))
    table = rows("account string, q decimal(18,6)", *values, weights=[row[2] for row in values])
    merged = merge([fold(table.slice(0, cut), shape), fold(table.slice(cut), shape)], shape)
    assert merged.equals(fold(table, shape))
    for row in merged.to_pylist():
        mine = [(q, w) for account, q, w in values if account == row["account"]]
        assert row["rows"] == row["v0"] == sum(w for _, w in mine)
        assert row["v1"] == sum((q * w for q, w in mine if q is not None), Decimal(0))
        assert row["n1"] == sum(w for q, w in mine if q is not None)


@given(st.lists(st.lists(st.none() | st.text(max_size=3), max_size=5), min_size=1, max_size=5))
def test_o1_least_and_greatest_merge_as_they_fold(parts):  # type: ignore[no-untyped-def]
    shape = view(of("min", "s", STRING), of("max", "s", STRING))
    tables = [rows("account string, s string", *(("a", text) for text in part)) for part in parts]
    merged = merge([fold(table, shape) for table in tables], shape).to_pylist()
    texts = [text for part in parts for text in part if text is not None]
    assert [(row["v0"], row["v1"], row["n0"]) for row in merged] == (
        [(min(texts, default=None), max(texts, default=None), len(texts))] if any(parts) else []
    )


def test_a_retraction_under_a_greatest_value_is_a_bug() -> None:
    table = rows("account string, s string", ("a", "x"), weights=[-1])
    with pytest.raises(BugError, match="usage"):
        fold(table, view(of("max", "s", STRING)))


def test_a_null_event_time_is_a_bug() -> None:
    with pytest.raises(BugError, match="usage"):
        fold(rows("at timestamp", (None,)), view(count(), keys="", window=MINUTE))


@pytest.mark.parametrize(
    ("kind", "column", "code"),
    [
        ("sum", "float", "float-sum-refused"),
        ("avg", "double", "float-sum-refused"),
        ("sum", "string", "aggregate-needs-number"),
        ("avg", "boolean", "aggregate-needs-number"),
        ("sum", "timestamp", "aggregate-needs-number"),
    ],
)
def test_a_measure_without_an_exact_answer_is_refused(kind: str, column: str, code: str) -> None:
    with pytest.raises(CallerError) as caught:
        check_measure(kind, ColumnType(column))  # type: ignore[arg-type]
    assert caught.value.code == code


def test_readers_see_exact_types() -> None:
    assert measure_type(count()) == ColumnType("long")
    assert measure_type(of("sum", "q", QUANTITY)) == Exact(6)
    assert measure_type(of("sum", "n", ColumnType("int"))) == Exact(0)
    assert measure_type(of("avg", "n", ColumnType("int"))) == Exact(4)
    assert measure_type(of("max", "q", QUANTITY)) == QUANTITY
