"""Aggregates for a view's columns: `agg.sum("quantity")`.

Nulls are passed over; over no value the result is null. Sums are exact: a float column is refused.
"""

from __future__ import annotations

from penstock.core.declared import Aggregate


def count() -> Aggregate:
    """How many rows.

    >>> count()
    Aggregate(kind='count', column=None)
    """
    return Aggregate("count")


def sum(column: str) -> Aggregate:
    """The exact sum of a decimal or integer column."""
    return Aggregate("sum", column)


def min(column: str) -> Aggregate:
    """The least value; text compares by code point."""
    return Aggregate("min", column)


def max(column: str) -> Aggregate:
    """The greatest value; text compares by code point."""
    return Aggregate("max", column)


def avg(column: str) -> Aggregate:
    """The mean, rounded half away from zero at four digits more than the column has."""
    return Aggregate("avg", column)
