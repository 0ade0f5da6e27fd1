"""What the producer itself knows: which records the log took, what must become of each, what each account owes.

Nothing of it comes from the pipeline. It is counted from delivery reports, each with partition and offset, and kept in
the home so that a later run adds to it. Offsets that no report of ours covers (the reports of a run that was killed,
records of somebody else) are gaps; they are settled by reading them from the log, where every record of ours says in a
header what it was meant to be.
Limit: where somebody else wrote to the topic, only the number of records read can be foretold.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.files import Files, read_whole, replace_whole
from penstock.core.units import Offset, PartitionId
from penstock.core.values import OffsetRange
from penstock.demo.traffic import OUTCOME_OF, TOPIC, Kind, read_units

HEADER = "planned"
OUTCOMES = ("applied", "duplicate", "conflict", "rejected", "late", "pending")


@dataclass(frozen=True, slots=True)
class Found:
    """A record that stands in the log; `kind` is None where it is not of ours."""

    offset: Offset
    kind: Kind | None
    value: bytes | None


@dataclass(slots=True)
class Account:
    requests: int = 0
    units: int = 0


@dataclass(slots=True)
class Truth:
    """Counts up to `through`, the next offset of every partition."""

    run: int = 0
    through: dict[PartitionId, Offset] = field(default_factory=dict)
    kinds: Counter[Kind] = field(default_factory=Counter)
    accounts: dict[str, Account] = field(default_factory=dict)
    gaps: list[OffsetRange] = field(default_factory=list)
    strangers: int = 0
    repeated: int = 0

    def add(self, partition: PartitionId, found: Found) -> None:
        """Count one record that the log took; offsets of a partition come in order."""
        expected = self.through.get(partition, Offset(0))
        if found.offset > expected:
            self.gaps.append(OffsetRange(TOPIC, partition, expected, found.offset))
        self.through[partition] = Offset(found.offset + 1)
        self._count(found)

    def catch_up(self, ends: Mapping[PartitionId, Offset], *, read: Callable[[OffsetRange], Iterable[Found]]) -> None:
        """Count what stands in the log beyond `through`: the reports for it never came."""
        for partition, end in ends.items():
            start = self.through.get(partition, Offset(0))
            for found in read(OffsetRange(TOPIC, partition, start, end)) if start < end else ():
                self._count(found)
            self.through[partition] = max(start, end)

    def settle(self, read: Callable[[OffsetRange], Iterable[Found]]) -> None:
        """Look into the gaps between our reports: a record of ours in one was stored though it was never reported."""
        for gap in self.gaps:
            for found in read(gap):
                self.strangers += found.kind is None
                self.repeated += found.kind is not None
        self.gaps.clear()

    def _count(self, found: Found) -> None:
        if found.kind is None:
            self.strangers += 1
            return
        self.kinds[found.kind] += 1
        if OUTCOME_OF[found.kind] == "applied" and found.value is not None:
            self._bill(json.loads(found.value))

    def _bill(self, fields: Mapping[str, str]) -> None:
        units = read_units(fields["quantity"])
        if units > 0:
            account = self.accounts.setdefault(fields["account"], Account())
            account.requests += 1
            account.units += units

    @property
    def read(self) -> int:
        return sum(self.kinds.values()) + self.strangers + self.repeated

    def outcomes(self) -> dict[str, int]:
        """What must become of the records, by outcome."""
        counts = dict.fromkeys(OUTCOMES, 0)
        for kind, count in self.kinds.items():
            counts[OUTCOME_OF[kind]] += count
        return counts

    def differences(self, outcomes: Mapping[str, int], *, rows: Sequence[Mapping[str, object]]) -> list[str]:
        """Where the view and its outcomes depart from what was sent, as sentences."""
        found = _number_differences("records read", {"all": self.read}, {"all": outcomes["read"]})
        if self.repeated:
            found.append(f"{self.repeated} records stand in the log that it never acknowledged")
        if self.strangers:
            return found
        billed = {str(row["account"]): row for row in rows}
        requests = {name: account.requests for name, account in self.accounts.items()}
        units = {name: account.units for name, account in self.accounts.items()}
        return [
            *found,
            *_number_differences("outcome", self.outcomes(), {name: outcomes[name] for name in OUTCOMES}),
            *_number_differences("requests of", requests, {n: int(str(row["requests"])) for n, row in billed.items()}),
            *_number_differences(
                "millionths of", units, {n: read_units(str(r["quantity"])) for n, r in billed.items()}
            ),
        ]


def _number_differences(what: str, expected: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    return [
        f"{what} {name}: sent {expected.get(name, 0):,}, found {found.get(name, 0):,}"
        for name in sorted({*expected, *found})
        if expected.get(name, 0) != found.get(name, 0)
    ]


def load(files: Files, path: Path) -> Truth:
    """The truth of earlier runs, or an empty one; a run that never wrote it is settled by reading the log."""
    content = read_whole(files, path)
    if content is None:
        return Truth()
    stored = json.loads(content)
    return Truth(
        run=stored["run"],
        through={PartitionId(int(partition)): Offset(end) for partition, end in stored["through"].items()},
        kinds=Counter({Kind(kind): count for kind, count in stored["kinds"].items()}),
        accounts={name: Account(*numbers) for name, numbers in stored["accounts"].items()},
        gaps=[OffsetRange(TOPIC, PartitionId(p), Offset(start), Offset(end)) for p, start, end in stored["gaps"]],
        strangers=stored["strangers"],
        repeated=stored["repeated"],
    )


def save(truth: Truth, *, files: Files, path: Path) -> None:
    """Keep it so that a crash leaves this or what was kept before."""
    replace_whole(files, path, content=to_json(truth))


def to_json(truth: Truth) -> bytes:
    return json.dumps(
        {
            "run": truth.run,
            "through": truth.through,
            "kinds": truth.kinds,
            "accounts": {name: [account.requests, account.units] for name, account in truth.accounts.items()},
            "gaps": [[gap.partition, gap.start, gap.end] for gap in truth.gaps],
            "strangers": truth.strangers,
            "repeated": truth.repeated,
        }
    ).encode()
