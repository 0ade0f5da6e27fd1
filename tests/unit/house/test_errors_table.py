"""The table of errors: every row is used, complete, and survives a pickle."""

from __future__ import annotations

import ast
import pickle
import string

import pytest

from penstock.core.errors import ROWS, fail
from tools.code_checks import read_files
from tools.pages import ROOT


def test_every_error_of_the_table_is_raised_somewhere() -> None:
    used = {
        node.value
        for file in read_files(ROOT, ["src"])
        if file.path != "src/penstock/core/errors.py"
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(ROWS.keys() - used) == []


@pytest.mark.parametrize("code", sorted(ROWS))
def test_an_error_survives_a_pickle(code: str) -> None:
    row = ROWS[code]
    names = {name for _, name, _, _ in string.Formatter().parse(row.message + row.next_step) if name}
    error = fail(row.kind, code, **{name: f"<{name}>" for name in sorted(names)})
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.fields) == (type(error), str(error), error.fields)
    assert all(f"<{name}>" in str(error) for name in names)


@pytest.mark.parametrize("code", sorted(ROWS))
def test_a_message_is_lower_case_and_ends_without_a_stop(code: str) -> None:
    row = ROWS[code]
    assert not row.message.endswith(".")
    assert not row.message[:1].isupper()
    assert row.next_step
