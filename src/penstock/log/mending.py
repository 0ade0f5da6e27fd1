"""What an unclean stop needs done to the files of one partition; the rules are in `recovery`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from penstock.core.files import File, Files, opened
from penstock.core.units import Offset
from penstock.core.values import TopicPartition
from penstock.log.durable import Recorded
from penstock.log.reading import damaged
from penstock.log.segment import log_path
from penstock.log.walk import CHUNK_BYTES, Walk, find_later_batch

LOG_NAME = re.compile(r"(\d{20})\.log")
_SWAP_NAME = re.compile(r"(\d{20})\.log\.swap")
_ASIDE = (".cleaned", ".tmp")


def offsets_in_names(files: Files, folder: Path, pattern: re.Pattern[str]) -> list[Offset]:
    """The offsets that the files' names carry, ascending."""
    matches = map(pattern.fullmatch, files.names(folder))
    return sorted(Offset(int(match[1])) for match in matches if match)


def _is_repeated(file: File, copy: File, *, position: int) -> bool:
    """Whether `copy` starts with everything that `file` has from the position on."""
    starts = range(position, file.size(), CHUNK_BYTES)
    return all(
        file.read_at(at, length=CHUNK_BYTES) == copy.read_at(at - position, length=min(CHUNK_BYTES, file.size() - at))
        for at in starts
    )


@dataclass(frozen=True, slots=True)
class Mending:
    files: Files
    folder: Path
    name: TopicPartition
    recorded: Recorded

    def settle_leftovers(self) -> None:
        """Finish or undo what an earlier process was doing beside the log."""
        for name in self.files.names(self.folder):
            if name.endswith(_ASIDE):
                self.files.remove(self.folder / name)
        for offset in offsets_in_names(self.files, self.folder, _SWAP_NAME):
            self._finish_swap(offset, start=None)

    def mend(self) -> None:
        """Check what stands past the durable offset, cut a torn end, copy the rest."""
        bases = offsets_in_names(self.files, self.folder, LOG_NAME)
        for index, base in enumerate(bases):
            later = bases[index + 1 :]
            if not later or later[0] > self._floor:
                self._mend_segment(base, later)

    @property
    def _floor(self) -> Offset:
        """Nothing before this offset is in doubt."""
        return self.recorded.start if self.recorded.end is None else self.recorded.end

    def _mend_segment(self, base: Offset, later: list[Offset]) -> None:
        path = log_path(self.folder, base)
        with opened(self.files, path) as file:
            trusted = self._walk_to(file, base, self._floor)
            if trusted.flaw:
                raise damaged(self.name, path, position=trusted.position, reason=trusted.flaw)
            start, first = trusted.position, trusted.expected or base
            doubted = Walk(file, position=start, end=file.size(), expected=first, check_crc=True)
            doubted.go_on()
            if doubted.flaw:
                self._check_torn(file, path, doubted, later)
            if doubted.position > start:
                self._copy_aside(file, log_path(self.folder, first), start=start, end=doubted.position)
        if doubted.position > start:
            self._finish_swap(first, start=start)
        else:
            self._cut(base, start)

    def _walk_to(self, file: File, base: Offset, offset: Offset) -> Walk:
        walk = Walk(file, position=0, end=file.size(), expected=base, check_crc=False)
        walk.go_to(offset)
        return walk

    def cut_repeat(self, base: Offset, following: Offset) -> bool:
        """Cut what the following segment holds too; False, and nothing cut, where its bytes are not the same.

        A recovery that failed while it synced a cut leaves this: the cut was seen until the power failed.
        """
        position = self._position_of(base, following)
        paths = log_path(self.folder, base), log_path(self.folder, following)
        with opened(self.files, paths[0]) as file, opened(self.files, paths[1]) as copy:
            is_same = _is_repeated(file, copy, position=position)
        if is_same:
            self._cut(base, position)
        return is_same

    def _position_of(self, base: Offset, offset: Offset) -> int:
        with opened(self.files, log_path(self.folder, base)) as file:
            return self._walk_to(file, base, offset).position

    def _check_torn(self, file: File, path: Path, walk: Walk, later: list[Offset]) -> None:
        """Raise unless what stopped the walk can be the torn end of the log."""
        expected = walk.expected or Offset(0)
        is_known = self.recorded.end is not None and expected >= self.recorded.end
        following = find_later_batch(file, position=walk.position + 1, end=file.size(), expected=expected)
        if not is_known or following is not None or any(map(self._has_bytes, later)):
            raise damaged(self.name, path, position=walk.position, reason=str(walk.flaw))

    def _has_bytes(self, base: Offset) -> bool:
        with opened(self.files, log_path(self.folder, base)) as file:
            return file.size() > 0

    def _copy_aside(self, source: File, path: Path, *, start: int, end: int) -> None:
        cleaned = path.with_name(path.name + ".cleaned")
        with opened(self.files, cleaned, create=True) as target:
            for at in range(start, end, CHUNK_BYTES):
                target.write_at(at - start, buffers=[source.read_at(at, length=min(CHUNK_BYTES, end - at))])
            target.sync()
        self.files.rename(cleaned, target=path.with_name(path.name + ".swap"))
        self.files.sync_folder(self.folder)

    def _finish_swap(self, offset: Offset, *, start: int | None) -> None:
        """Cut the segment before at `offset`, then give the swap its name; may be done any number of times.

        `start` is the byte to cut at where it is known: zero where the swap replaces a whole segment.
        """
        before = [base for base in offsets_in_names(self.files, self.folder, LOG_NAME) if base < offset]
        if before and start != 0:
            self._cut(before[-1], start if start else self._position_of(before[-1], offset))
        path = log_path(self.folder, offset)
        self.files.rename(path.with_name(path.name + ".swap"), target=path)
        self._remove_indexes(path)
        self.files.sync_folder(self.folder)

    def _cut(self, base: Offset, size: int) -> None:
        path = log_path(self.folder, base)
        with opened(self.files, path) as file:
            if file.size() > size:
                self._remove_indexes(path)
                file.truncate(size)
                file.sync()

    def _remove_indexes(self, path: Path) -> None:
        for suffix in (".index", ".timeindex"):
            self.files.remove(path.with_suffix(suffix))
