"""The two indexes of a segment: from an offset to a byte, from a time to an offset.

An index file is a row of entries, big-endian, keys ascending, one entry at most for every 4,096 bytes of log:

    .index      relative offset (4)  position (4)          the batch at `position` ends with that offset
    .timeindex  timestamp (8)        relative offset (4)   no record up to that offset is later than `timestamp`

Offsets are relative to the segment's first. Validity: whole entries, keys that grow, values that do not fall.
Recovery: the log is the only truth. What is missing, short or invalid is made anew from it; an index is never needed.
An index lives in memory while its segment grows and in its file once the segment is sealed.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from operator import le, lt

from penstock.core.files import File

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


@dataclass(frozen=True, slots=True)
class Entry:
    key: int
    value: int


class Index:
    """The entries of one index that still grows."""

    def __init__(self, layout: struct.Struct) -> None:
        self._layout = layout
        self._keys = array("q")
        self._values = array("q")

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: int, *, value: int) -> None:
        """Keep the entry if its key is new; a key that does not grow says nothing more."""
        if not self._keys or key > self._keys[-1]:
            # Another thread may look things up: a key without its value must not be seen.
            self._values.append(value)
            self._keys.append(key)

    def floor(self, key: int) -> Entry | None:
        """The last entry whose key is at most `key`."""
        return self._at(bisect_right(self._keys, key) - 1)

    def last(self) -> Entry | None:
        return self._at(len(self._keys) - 1)

    def _at(self, index: int) -> Entry | None:
        return None if index < 0 else Entry(self._keys[index], self._values[index])

    def shorten(self, length: int) -> None:
        del self._keys[length:], self._values[length:]

    def to_bytes(self) -> bytes:
        pack = self._layout.pack
        return b"".join(map(pack, self._keys, self._values))

    @classmethod
    def from_bytes(cls, data: bytes, *, layout: struct.Struct) -> Index | None:
        """The index that the bytes spell, or None if they spell none."""
        if len(data) % layout.size:
            return None
        index = cls(layout)
        for key, value in layout.iter_unpack(data):
            index._keys.append(key)
            index._values.append(value)
        grows = all(map(lt, index._keys, index._keys[1:])) and all(map(le, index._values, index._values[1:]))
        return index if grows and all(value >= 0 for value in index._values[:1]) else None


def floor_in_file(file: File, key: int, *, layout: struct.Struct) -> Entry | None:
    """As `Index.floor`, in a file, by bisection: a sealed segment's index takes no memory."""
    low, high = 0, file.size() // layout.size
    found = None
    while low < high:
        middle = (low + high) // 2
        entry = Entry(*layout.unpack(file.read_at(middle * layout.size, length=layout.size)))
        if entry.key <= key:
            found, low = entry, middle + 1
        else:
            high = middle
    return found


def last_in_file(file: File, *, layout: struct.Struct) -> Index | None:
    """An index of the file's last entry alone; None where its size is not one of an index."""
    size = file.size()
    if size % layout.size:
        return None
    return Index.from_bytes(file.read_at(max(size - layout.size, 0), length=layout.size), layout=layout)
