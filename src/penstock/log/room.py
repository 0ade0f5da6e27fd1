"""Refuse writes while the disk still has room for what must go on.

L7   Records of users stop short of the reserve; committed offsets and the like may use it.
Limit: other programs fill disks too, so a write may still meet a full one; `log.writing` takes it back then.
"""

from __future__ import annotations

from pathlib import Path

from penstock.core.errors import RetryError, fail
from penstock.core.files import Files


class Room:
    """What is free, measured again whenever a part of the reserve has been written since."""

    def __init__(self, files: Files, folder: Path, *, reserve_bytes: int) -> None:
        self._files = files
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._unmeasured = 0
        self._free = files.free_bytes(folder)

    def take(self, size: int) -> RetryError | None:
        """Count `size` bytes as written, or say why they may not be."""
        self._unmeasured += size
        if self._unmeasured > self._reserve_bytes // 4 or self._lacks_room():
            self._free, self._unmeasured = self._files.free_bytes(self._folder), size
        if not self._lacks_room():
            return None
        error = fail(RetryError, "disk-full", path=self._folder, free=self._free)
        return error if isinstance(error, RetryError) else None

    def _lacks_room(self) -> bool:
        return self._free - self._unmeasured < self._reserve_bytes
