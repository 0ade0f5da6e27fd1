"""The generated pages are fresh, and a law that is claimed without a test is found."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from penstock.core.errors import ROWS
from tools.error_reference import group_by_part
from tools.guarantees import Guarantees, find_claims, find_tests, read_guarantees, render
from tools.pages import COMMAND, ROOT, render_pages

LAWS = {"L1": "nothing is lost", "L2": "offsets stand"}


@pytest.mark.parametrize("path", ["docs/GUARANTEES.md", "docs/reference/errors.md", "docs/reference/settings.md"])
def test_a_generated_page_is_fresh(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == render_pages(ROOT)[path], f"stale: run {COMMAND}"


def test_every_law_that_a_module_claims_has_a_test() -> None:
    assert read_guarantees(ROOT).problems() == []


def test_a_claimed_law_without_a_test_is_an_orphan() -> None:
    guarantees = Guarantees(LAWS, claims={"L1": ["src/log.py"]}, tests={})
    assert guarantees.problems() == ["L1 is claimed and no test names it: src/log.py"]


def test_a_number_that_is_no_law_is_named() -> None:
    guarantees = Guarantees(LAWS, claims={}, tests={"L9": ["tests/test_log.py::test_l9_x"]})
    assert guarantees.problems() == ["L9 is no law of docs/laws.toml: tests/test_log.py::test_l9_x"]


def test_claims_are_read_from_docstrings_alone() -> None:
    tree = ast.parse('"""L1   kept."""\nL2 = "L2"\ndef f():\n    """Keeps L3 and HTML4."""\n')
    assert find_claims([(Path("src/log.py"), tree)]) == {"L1": ["src/log.py"], "L3": ["src/log.py"]}


def test_tests_are_read_from_their_names() -> None:
    tree = ast.parse("def test_l1_l2_a_record_stays(): ...\ndef test_all_is_well(): ...\ndef keep_l1_x(): ...\n")
    place = "tests/test_log.py::test_l1_l2_a_record_stays"
    assert find_tests([(Path("tests/test_log.py"), tree)]) == {"L1": [place], "L2": [place]}


def test_a_law_that_nothing_reaches_is_listed_as_not_yet() -> None:
    page = render(Guarantees(LAWS, claims={}, tests={"L1": ["tests/t.py::test_l1_nothing_is_lost"]}))
    assert "## L1\n\nnothing is lost\n\n- `tests/t.py`\n  - nothing is lost\n" in page
    assert page.endswith("- **L2** offsets stand\n")


def test_errors_are_grouped_by_the_comments_of_the_table() -> None:
    lines = [
        "# other",
        "ROWS = {",
        "    # core",
        '    "a-b": Row(',
        "        X,",
        "    ),",
        "    # log",
        '    "c": Row(X),',
    ]
    assert group_by_part(lines) == {"core": ["a-b"], "log": ["c"]}


def test_every_error_of_the_table_is_on_the_page() -> None:
    page = render_pages(ROOT)["docs/reference/errors.md"]
    assert [code for code in ROWS if f"| `{code}` |" not in page] == []
