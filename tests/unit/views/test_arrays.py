"""Arrow columns as the text of Postgres arrays."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.views.fold import array_text

STAMP = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([], pa.string()), "{}"),
        (pa.array(["a", None, "NULL", ""]), '{"a",NULL,"NULL",""}'),
        (pa.array(["a", "b"], pa.large_string()), '{"a","b"}'),
        (pa.array(['say "no"', "back\\slash", "a,b", "{}"]), '{"say \\"no\\"","back\\\\slash","a,b","{}"}'),
        (pa.chunked_array([["a"], ["b"]]), '{"a","b"}'),
        (pa.array([1, None, -(2**63)], pa.int64()), "{1,NULL,-9223372036854775808}"),
        (pa.array([True, False, None]), "{true,false,NULL}"),
        (pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(38, 2)), "{1.50,NULL,-0.01}"),
        (pa.array([dt.date(2026, 1, 2)]), "{2026-01-02}"),
        (pa.array(["a", "b", "c"]).slice(1, 1), '{"b"}'),
    ],
)
def test_a_column_becomes_the_text_of_an_array(column: pa.Array, text: str) -> None:
    assert array_text(column) == text
