"""The real file system: whole writes, typed errors, the lock; and the faulty one's promises."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.core.errors import CallerError, CorruptError, RetryError
from penstock.core.files import Files, RealFiles, opened, read_whole, replace_whole, storage_error
from penstock.testing.faulty_files import Fault, FaultyFiles, PowerCut


@pytest.fixture(params=["real", "faulty"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, Path]:
    files: Files = RealFiles() if request.param == "real" else FaultyFiles()
    files.make_folder(tmp_path / "a" / "b")
    return files, tmp_path / "a" / "b"


def test_what_is_written_at_a_position_is_read_there(disk: tuple[Files, Path]) -> None:
    files, folder = disk
    with opened(files, folder / "x", create=True) as file:
        file.write_at(2, buffers=[b"cd", bytearray(b"e"), memoryview(b"fg")])
        file.write_at(0, buffers=[b"ab"])
        file.sync()
        assert file.size() == 7
        assert file.read_at(1, length=3) == b"bcd"
        assert file.read_at(5, length=9) == b"fg"
        assert file.read_at(9, length=9) == b""
        file.truncate(3)
    assert read_whole(files, folder / "x") == b"abc"


def test_thousands_of_buffers_are_written_whole(disk: tuple[Files, Path]) -> None:
    files, folder = disk
    with opened(files, folder / "x", create=True) as file:
        file.write_at(0, buffers=[str(number % 10).encode() for number in range(3_000)])
    assert read_whole(files, folder / "x") == b"0123456789" * 300


def test_names_are_sorted_and_go_with_renames_and_removals(disk: tuple[Files, Path]) -> None:
    files, folder = disk
    for name in ("b", "a"):
        files.open(folder / name, create=True).close()
    assert files.names(folder) == ["a", "b"]
    files.rename(folder / "a", target=folder / "c")
    files.remove(folder / "b")
    files.remove(folder / "b")
    files.sync_folder(folder)
    assert files.names(folder) == ["c"]
    assert files.names(folder / "nothing") == []
    files.remove(folder / "c")
    files.remove_folder(folder)
    files.remove_folder(folder)
    assert files.names(folder.parent) == []


def test_a_missing_file_is_told_plainly(disk: tuple[Files, Path]) -> None:
    files, folder = disk
    assert read_whole(files, folder / "x") is None
    with pytest.raises(FileNotFoundError):
        files.open(folder / "x")


def test_a_file_is_replaced_as_a_whole(disk: tuple[Files, Path]) -> None:
    files, folder = disk
    replace_whole(files, folder / "x", content=b"one")
    replace_whole(files, folder / "x", content=b"2")
    assert read_whole(files, folder / "x") == b"2"
    assert files.names(folder) == ["x"]


def test_a_lock_is_held_once(disk: tuple[Files, Path]) -> None:
    files, folder = disk
    lock = files.lock(folder / ".lock")
    with pytest.raises(CallerError, match="is in use by process"):
        files.lock(folder / ".lock")
    lock.release()
    files.lock(folder / ".lock").release()


def test_a_held_lock_names_the_process(tmp_path: Path) -> None:
    lock = RealFiles().lock(tmp_path / ".lock")
    with pytest.raises(CallerError, match=f"process {os.getpid()}"):
        RealFiles().lock(tmp_path / ".lock")
    lock.release()


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: write(fd, [bytes(b"".join(buffers)[:3])], at))
    with opened(RealFiles(), tmp_path / "x", create=True) as file:
        file.write_at(0, buffers=[b"ab", b"cdefg", b"", b"h"])
    assert (tmp_path / "x").read_bytes() == b"abcdefgh"


@pytest.mark.parametrize(
    ("number", "action", "kind", "code"),
    [
        (errno.ENOSPC, "write", RetryError, "disk-full"),
        (errno.EDQUOT, "write", RetryError, "disk-full"),
        (errno.EIO, "write", CorruptError, "storage-failed"),
        (errno.EIO, "sync", CorruptError, "sync-failed"),
        (errno.ENOSPC, "sync", CorruptError, "sync-failed"),
        (errno.EACCES, "open", CallerError, "file-forbidden"),
    ],
)
def test_what_a_failure_means_depends_on_the_call(number: int, action: str, kind: type, code: str) -> None:
    error = storage_error(OSError(number, os.strerror(number)), path=Path("/x"), action=action, free=0)
    assert (type(error), error.code) == (kind, code)


def test_a_full_disk_names_the_path_and_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with opened(RealFiles(), tmp_path / "x", create=True) as file:
        monkeypatch.setattr(os, "pwritev", refuse)
        with pytest.raises(RetryError, match=rf"no room for {tmp_path}/x: \d+ bytes are free"):
            file.write_at(0, buffers=[b"a"])


# The faulty disk

X = Path("/d/x")


def faulty() -> FaultyFiles:
    files = FaultyFiles()
    files.make_folder(Path("/d"))
    return files


def test_a_power_cut_keeps_what_was_synced_and_parts_of_the_rest() -> None:
    seen = set()
    for seed in range(200):
        files = faulty()
        file = files.open(X, create=True)
        file.write_at(0, buffers=[b"ab"])
        file.sync()
        files.sync_folder(Path("/d"))
        file.write_at(2, buffers=[b"cd"])
        seen.add(files.after_power_cut(seed=seed).content(X))
    assert seen == {b"ab", b"abc", b"abcd", b"ab\0\0", b"abc\0"}


def test_a_power_cut_forgets_names_whose_folder_was_not_synced() -> None:
    left = set()
    for seed in range(50):
        files = faulty()
        replace_whole(files, X, content=b"1")
        file = files.open(Path("/d/y"), create=True)
        file.write_at(0, buffers=[b"2"])
        file.sync()
        files.rename(Path("/d/y"), target=X)
        after = files.after_power_cut(seed=seed)
        left.add((tuple(after.names(Path("/d"))), after.content(X)))
    assert left == {(("x",), b"1"), (("x", "y"), b"1"), (("x",), b"2")}


def test_what_a_failed_sync_left_is_readable_and_never_reaches_the_disk() -> None:
    files = faulty()
    file = files.open(X, create=True)
    files.sync_folder(Path("/d"))
    file.write_at(0, buffers=[b"ab"])
    files.fault_at(files.calls + 1, fault=Fault.FAIL)
    with pytest.raises(CorruptError):
        file.sync()
    file.sync()
    assert files.content(X) == b"ab"
    assert files.after_power_cut(seed=1).content(X) == b""


def test_the_faults_of_a_write() -> None:
    outcomes = []
    for fault in Fault:
        files = faulty()
        file = files.open(X, create=True)
        files.fault_at(files.calls + 1, fault=fault)
        try:
            file.write_at(0, buffers=[b"abcd"])
            name = "done"
        except (PowerCut, CorruptError, RetryError) as error:
            name = type(error).__name__
        outcomes.append((fault, name, files.content(X)))
    assert outcomes == [
        (Fault.FAIL, "CorruptError", b""),
        (Fault.FULL, "RetryError", b"ab"),
        (Fault.CUT, "PowerCut", b""),
        (Fault.TEAR, "PowerCut", b"ab"),
        (Fault.DROP, "done", b""),
    ]
