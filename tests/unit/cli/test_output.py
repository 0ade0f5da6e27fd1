"""What a command prints, as JSON and as a table."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from penstock.cli.output import Output, as_json, emit, say


def test_json_is_one_document_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"rows": [{"topic": "a"}]}, output=Output.JSON)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ('{"rows": [{"topic": "a"}]}\n', "")


def test_what_is_said_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    say("starting")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "starting\n")


@pytest.mark.parametrize(
    ("value", "spelt"),
    [
        (Decimal("1E+3"), "1000"),
        (Decimal("0.000000000001"), "0.000000000001"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:04:05.000006Z"),
        (date(2026, 1, 2), "2026-01-02"),
        (b"caf\xc3\xa9 \xff", "café \\xff"),
        (Path("a/b"), "a/b"),
    ],
)
def test_a_value_is_spelt_exactly(value: object, spelt: str) -> None:
    assert json.loads(as_json({"value": value})) == {"value": spelt}


@pytest.mark.parametrize("value", [datetime(2026, 1, 2), object()])
def test_a_value_without_one_meaning_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="a document cannot hold"):
        as_json({"value": value})


def test_a_number_that_json_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"value": float("nan")})


def test_rows_are_a_table_with_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    emit([{"topic": "a", "partitions": 1}, {"topic": "bb", "partitions": 12}], output=Output.TABLE)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["topic  partitions", "a               1", "bb             12"]


def test_no_rows_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    emit([], output=Output.TABLE)
    assert capsys.readouterr().out == "nothing\n"


def test_a_mapping_shows_its_values_then_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"view": "by_[b]account[/b]", "cut": {"a": {"0": 3}}, "last": None, "rows": [{"n": Decimal("1.50")}]}
    emit(document, output=Output.TABLE)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "view  by_[b]account[/b]",
        'cut   {"a": {"0": 3}}',
        "last  -",
        "",
        "rows",
        "   n",
        "1.50",
    ]


def test_a_long_value_is_never_cut_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    emit([{"value": "x" * 500}], output=Output.TABLE)
    assert "x" * 500 in capsys.readouterr().out
