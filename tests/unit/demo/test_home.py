"""One demo at a time uses a home, and a full disk is told before and after."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from penstock.core.errors import CallerError, RetryError, fail
from penstock.core.files import RealFiles
from penstock.demo.home import ROOM_MIN, alone_in, stopped_by_sigterm, with_room


class NearlyFull(RealFiles):
    """A disk that fills up at the second question."""

    def __init__(self, *free: int) -> None:
        self.free = list(free)

    def free_bytes(self, path: Path) -> int:
        return self.free.pop(0)


def test_a_second_demo_in_the_same_home_is_refused_and_names_the_first(tmp_path: Path) -> None:
    with alone_in(tmp_path, files=RealFiles()):
        with pytest.raises(CallerError) as caught, alone_in(tmp_path, files=RealFiles()):
            pass
        assert caught.value.code == "demo-running"
        assert caught.value.fields == {"home": str(tmp_path), "process": str(os.getpid())}
    with alone_in(tmp_path, files=RealFiles()):
        """The lock fell with the first."""


def test_a_nearly_full_disk_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(RetryError, match="disk-full"), with_room(tmp_path, files=NearlyFull(ROOM_MIN - 1)):
        pytest.fail("it must not start")


def test_a_failure_on_a_disk_that_filled_up_meanwhile_says_so(tmp_path: Path) -> None:
    ended = fail(RetryError, "demo-part-silent", part="broker", seconds=9, log="broker.log")
    with pytest.raises(RetryError, match="disk-full"), with_room(tmp_path, files=NearlyFull(ROOM_MIN, 0)):
        raise ended
    with pytest.raises(RetryError, match="demo-part-silent"), with_room(tmp_path, files=NearlyFull(ROOM_MIN, ROOM_MIN)):
        raise ended


def test_sigterm_ends_the_demo_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), stopped_by_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
