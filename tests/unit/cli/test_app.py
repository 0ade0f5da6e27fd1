"""The frame of the command line: what is loaded, what is printed where, and the exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import typer

from penstock.cli import app
from penstock.core.errors import (
    BugError,
    CallerError,
    CorruptError,
    DataLossError,
    FencedError,
    PenstockError,
    RetryError,
    fail,
)
from penstock.core.invariant import invariant

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_body(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a made-up command `probe` with this body, and answer status, standard output, standard error."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def run(body: Callable[[], object], *arguments: str) -> tuple[int, str, str]:
        def probe(*, output: str = "table") -> None:
            body()

        monkeypatch.setattr(app, "load", lambda _: probe)
        monkeypatch.setitem(app.COMMANDS, "probe", app.Command("made.up:probe", "A probe."))
        status = app.run(["probe", *arguments])
        return status, *capsys.readouterr()

    return run


def throw(error: BaseException) -> Callable[[], object]:
    def body() -> None:
        raise error

    return body


def test_help_lists_every_command_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([]) == 0
    first_words = [line.strip("│ ").partition(" ")[0] for line in capsys.readouterr().out.splitlines()]
    assert [word for word in first_words if word in app.COMMANDS] == list(app.COMMANDS)


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert capsys.readouterr().out == metadata.version("penstock") + "\n"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from penstock.cli.app import run; run(['--help']);"
        "heavy = {'pydantic', 'pyspark', 'psycopg', 'pyarrow', 'numpy', 'confluent_kafka', 'asyncio'};"
        "sys.exit(', '.join(sorted(heavy & sys.modules.keys())) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_of_the_list_exists_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([name, "--help"]) == 0
    assert "Usage: penstock " + name in capsys.readouterr().out


def test_a_command_that_ends_well_has_status_0(run_body: Run) -> None:
    assert run_body(lambda: None) == (0, "", "")


def test_a_command_whose_answer_is_no_has_status_1(run_body: Run) -> None:
    assert run_body(throw(typer.Exit(1))) == (1, "", "")


@pytest.mark.parametrize(
    ("kind", "status"),
    [(CallerError, 2), (FencedError, 3), (DataLossError, 4), (CorruptError, 5), (BugError, 70), (RetryError, 75)],
)
def test_the_exit_status_tells_the_kind(
    kind: type[PenstockError], status: int, run_body: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.core import errors

    monkeypatch.setitem(errors.ROWS, "made-up", errors.Row(kind, "no {what}", "look for {what}"))
    answered, out, err = run_body(throw(fail(kind, "made-up", what="luck")))
    assert (answered, out) == (status, "")
    assert err.startswith("error: no luck (made-up)\nnext: look for luck\n")


def test_an_error_is_one_json_object_where_json_was_asked_for(run_body: Run) -> None:
    status, out, err = run_body(throw(fail(CallerError, "size-unreadable", value="x")), "--output", "json")
    assert (status, out) == (2, "")
    assert json.loads(err) == {
        "error": {
            "code": "size-unreadable",
            "kind": "caller",
            "message": "'x' is not a size",
            "next": "write for example '64 MB' or a number of bytes",
        }
    }


def test_an_option_that_does_not_exist_says_where_to_look(run_body: Run) -> None:
    status, out, err = run_body(lambda: None, "--colour")
    assert (status, out) == (2, "")
    assert err == "error: No such option: --colour (usage-wrong)\nnext: penstock probe --help\n"


def test_a_misspelt_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["brokr"]) == 2
    assert "Did you mean 'broker'?" in capsys.readouterr().err


@pytest.mark.parametrize(("package", "extra"), [("pyspark", "spark"), ("psycopg", "postgres")])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(package: str, extra: str, run_body: Run) -> None:
    status, _, err = run_body(throw(ModuleNotFoundError("gone", name=f"{package}.sql")))
    assert status == 2
    assert err.endswith(f"next: pip install 'penstock[{extra}]'\n")


def test_ctrl_c_ends_with_130_and_no_traceback(run_body: Run) -> None:
    assert run_body(throw(KeyboardInterrupt())) == (130, "", "")


def test_an_unexpected_error_keeps_its_traceback_in_a_file(run_body: Run, tmp_path: Path) -> None:
    status, _, err = run_body(throw(ZeroDivisionError("by nothing")))
    [kept] = tmp_path.glob("*.traceback.txt")
    assert status == 70
    assert err.splitlines() == [
        "error: ZeroDivisionError: by nothing (error-unexpected)",
        "next: report this with the traceback",
        f"traceback: {kept}",
    ]
    assert "in body\n" in kept.read_text()


def test_a_broken_invariant_keeps_its_traceback_too(run_body: Run, tmp_path: Path) -> None:
    status, _, err = run_body(lambda: invariant(1 > 2, "order holds"))
    assert status == 70
    assert err.endswith(f"traceback: {next(tmp_path.glob('*.traceback.txt'))}\n")


def test_a_reader_that_went_away_ends_the_command_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code = "from penstock.cli.app import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
