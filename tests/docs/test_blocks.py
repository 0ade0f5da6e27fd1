"""Every block of Python and every console session in README and docs does what it says.

A ```python block is run; one that opens with a comment such as `# usage.py` is saved under that name first, for
the blocks after it. In a ```console block each line that begins with `$ ` is run and must end with status 0; the lines
after it must appear in its output, in order, where `...` stands for anything. The blocks of a page run in one folder,
from top to bottom. Blocks of no language, or of another one, are for reading.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([a-z_]+\.py)\n")
SECONDS_MAX = 300


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to run: its command line, and the lines that its output must hold."""

    command: str
    expected: tuple[str, ...] = ()


def read_blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of every block that runs."""
    return [(match[1], match[2]) for match in BLOCK.finditer(text)]


def read_session(text: str) -> list[Step]:
    """The commands of a console block, each with the output that is shown under it."""
    steps: list[Step] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line.removeprefix("$ ")))
        elif steps and line.strip() not in {"", "..."}:
            steps[-1] = Step(steps[-1].command, (*steps[-1].expected, line.strip()))
    return steps


def run_block(language: str, text: str, *, folder: Path) -> None:
    if language == "console":
        for step in read_session(text):
            check_output(step, run(step.command, folder=folder))
        return
    name = match[1] if (match := FILE_NAME.match(text)) else "block.py"
    (folder / name).write_text(text, encoding="utf-8")
    run(f"python {name}", folder=folder)


def run(command: str, *, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}"
    return done.stdout


def check_output(step: Step, output: str) -> None:
    """The lines appear in this order; `...` inside a line stands for anything."""
    lines = iter(output.splitlines())
    for wanted in step.expected:
        pattern = ".*".join(re.escape(part) for part in wanted.split("..."))
        assert any(re.search(pattern, line) for line in lines), f"$ {step.command}\nno line {wanted!r} in\n{output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    for language, text in read_blocks(page.read_text(encoding="utf-8")):
        run_block(language, text, folder=tmp_path)


def test_a_block_that_fails_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_block("python", "1 / 0\n", folder=tmp_path)


def test_a_command_that_fails_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"\$ false"):
        run_block("console", "$ false\n", folder=tmp_path)


def test_output_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no line 'b'"):
        run_block("console", "$ printf 'b\\na\\n'\na\nb\n", folder=tmp_path)


def test_a_saved_file_is_there_for_the_blocks_after_it(tmp_path: Path) -> None:
    run_block("python", "# usage.py\nprint('seen 3 of 4')\n", folder=tmp_path)
    run_block("console", "$ python usage.py\nseen ... of 4\n", folder=tmp_path)


def test_only_blocks_that_run_are_read() -> None:
    text = "```\nmake demo\n```\n\n```python\nx = 1\n```\n\n```toml\na = 1\n```\n"
    assert read_blocks(text) == [("python", "x = 1\n")]
