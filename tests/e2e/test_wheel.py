"""The wheel holds what runs, and runs without this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


def test_the_wheel_holds_sources_data_types_and_licence(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {"penstock/py.typed", "penstock/cli/app.py", "penstock/protocol/schemas/fetch.json"} <= held
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in held)
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/penstock").rglob("*.py")}
    assert sources <= held
    assert {name.partition("/")[0] for name in held if ".dist-info/" not in name} == {"penstock"}


def test_the_installed_wheel_has_the_command(wheel: Path, tmp_path: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "bin/penstock"), "--version"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    version = wheel.name.split("-")[1]
    assert (done.returncode, done.stdout, done.stderr) == (0, version + "\n", "")
