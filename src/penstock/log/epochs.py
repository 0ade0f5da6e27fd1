"""Leader epochs: which start of the broker appended from which offset on.

`leader-epoch-checkpoint` (Kafka's layout), lines of text: the version, 0; the number of entries; then for each entry
the epoch and its first offset. Validity: as many entries as it says, both columns growing. It is replaced as a whole.
Recovery: missing or invalid, it is made anew from the epoch that the log's last batch carries.

L2   The epoch goes up at each unclean start, so a client that saw what was cut can tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from penstock.core.units import LeaderEpoch, Offset

FILE_NAME = "leader-epoch-checkpoint"


@dataclass(frozen=True, slots=True)
class Epochs:
    """Each epoch with its first offset, in order; never empty.

    >>> Epochs(((LeaderEpoch(0), Offset(0)),)).advanced(Offset(7)).current
    1
    """

    entries: tuple[tuple[LeaderEpoch, Offset], ...]

    @property
    def current(self) -> LeaderEpoch:
        return self.entries[-1][0]

    def advanced(self, end: Offset) -> Epochs:
        """The next epoch, from `end` on; epochs that would start there or later wrote nothing and are gone."""
        kept = tuple(entry for entry in self.entries if entry[1] < end)
        return Epochs((*kept, (LeaderEpoch(self.current + 1), end)))

    def to_bytes(self) -> bytes:
        lines = [f"{epoch} {start}" for epoch, start in self.entries]
        return "\n".join(["0", str(len(lines)), *lines, ""]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Epochs | None:
        """The epochs that the bytes spell, or None if they spell none."""
        try:
            version, count, *lines = data.decode("ascii").splitlines()
            pairs = [tuple(map(int, line.split(" "))) for line in lines]
            entries = tuple((LeaderEpoch(epoch), Offset(start)) for epoch, start in pairs)
            right = version == "0" and int(count) == len(entries) > 0
        except ValueError:
            return None
        grows = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
        return cls(entries) if right and grows else None


FIRST_EPOCHS = Epochs(((LeaderEpoch(0), Offset(0)),))
