"""Give every record of a batch its outcome, before any function of the user sees it.

V1   Each record read has exactly one outcome; the source's own count per range is what the outcomes are held against.
O3   The verdicts depend on the batch and the ledger alone: the first committed record of an identity wins, and within
     a batch the one with the lowest partition and offset.
Limit: a batch is held on the driver as Arrow; admission bounds how large it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.declared import POSITION
from penstock.core.units import Offset, PartitionId
from penstock.core.values import OffsetRange
from penstock.kernels.hashing import hash_words
from penstock.kernels.intake import ACCEPTED, CONFLICT, DUPLICATE, Hashes, decide
from penstock.pipeline.frames import POSITION_ARROW
from penstock.pipeline.intake_rows import Intake

Outcome = Literal["applied", "duplicate", "conflict", "rejected", "late", "pending"]
OutcomeCounts = Counter[tuple[str, PartitionId, str, str]]
"""Records by topic, partition, outcome and reason; the reason is empty for all but rejected."""
Position = tuple[str, PartitionId, Offset]
"""Topic, partition and offset of one record."""

FUNCTION_RAISED = "function raised"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that goes to a topic of its own instead of into the streams."""

    position: Position
    outcome: Outcome
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What the reading job of one batch brought: the bounds of each range, its count, and a table per topic."""

    ranges: tuple[OffsetRange, ...]
    reads: Mapping[tuple[str, PartitionId], int]
    topics: Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome of every record: counts, the accepted rows per topic, their identities, and who is refused."""

    outcomes: OutcomeCounts
    accepted: Mapping[str, pa.Table]
    identities: Mapping[str, pa.Table]
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger already holds for the identities of a topic's rows, row by row."""

    found: npt.NDArray[np.bool_]
    contents: Hashes


@dataclass(frozen=True, slots=True)
class SetAside:
    """Records on which a function raised, with what it said."""

    said: dict[Position, str] = field(default_factory=dict)

    def positions(self) -> dict[str, list[tuple[PartitionId, Offset]]]:
        """As a plan records them: per topic, partition and offset."""
        topics = sorted({topic for topic, _, _ in self.said})
        return {name: sorted((p, o) for topic, p, o in self.said if topic == name) for name in topics}


def collect(rows: pa.Table, *, intake: Intake) -> Collected:
    """Take the rows of the reading job apart."""
    is_range = pc.is_valid(rows["range"])
    ranges, reads = [], {}
    for row in rows.filter(is_range).select(["topic", "partition", "range"]).to_pylist():
        place = PartitionId(row["partition"])
        name = intake.topics[row["topic"]].name
        ranges.append(OffsetRange(name, place, Offset(row["range"]["start"]), Offset(row["range"]["end"])))
        reads[name, place] = row["range"]["read"]
    records = rows.filter(pc.invert(is_range))
    topics = {
        topic.name: _topic_rows(records.filter(pc.equal(records["topic"], at)), f"t{at}")
        for at, topic in enumerate(intake.topics)
    }
    return Collected(tuple(sorted(ranges)), reads, topics)


def _topic_rows(records: pa.Table, values: str) -> pa.Table:
    names = ["partition", "offset", "reason", "detail", "id", "content", values]
    rows = records.select(names).rename_columns([*names[:-1], "values"]).combine_chunks()
    for name in ("id", "content"):
        rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(pa.binary(16)))
    return rows


def judge(collected: Collected, *, known: Mapping[str, Known], aside: SetAside) -> Judged:
    """Decide every record of the batch; what a function raised on is rejected and claims no identity."""
    outcomes: OutcomeCounts = Counter()
    accepted, identities = {}, {}
    refusals: list[Refusal] = []
    for topic, rows in collected.topics.items():
        raised = _raised(topic, rows, aside.said)
        is_candidate = np.asarray(pc.is_null(rows["reason"])) & ~raised
        verdicts = _verdicts(rows, known[topic], is_candidate)
        keep = pa.array(verdicts == ACCEPTED)
        winners = rows.filter(keep)
        accepted[topic] = _frame_rows(topic, winners)
        identities[topic] = winners.select(["id", "content", "partition", "offset"])
        outcomes += _counts(topic, rows, verdicts, "applied", ACCEPTED)
        outcomes += _counts(topic, rows, verdicts, "duplicate", DUPLICATE)
        outcomes += _counts(topic, rows, verdicts, "conflict", CONFLICT)
        refusals += _refusals(topic, rows, verdicts=verdicts, said=aside.said)
    for refusal in refusals:
        if refusal.outcome == "rejected":
            outcomes[refusal.position[0], refusal.position[1], "rejected", refusal.reason] += 1
    return Judged(outcomes, accepted, identities, tuple(refusals))


def _raised(topic: str, rows: pa.Table, said: Collection[Position]) -> npt.NDArray[np.bool_]:
    raised = np.zeros(rows.num_rows, dtype=np.bool_)
    if any(position[0] == topic for position in said):
        places = zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
        raised[:] = [(topic, partition, offset) in said for partition, offset in places]
    return raised


_NOT_A_CANDIDATE = -1


def _verdicts(rows: pa.Table, known: Known, is_candidate: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8]:
    verdicts = np.full(rows.num_rows, _NOT_A_CANDIDATE, dtype=np.int8)
    candidates = rows.filter(pa.array(is_candidate))
    verdicts[is_candidate] = decide(
        hash_words(joined(candidates["id"])),
        hash_words(joined(candidates["content"])),
        candidates["partition"].to_numpy(),
        candidates["offset"].to_numpy(),
        known.found[is_candidate],
        known.contents[is_candidate],
    )
    return verdicts


def joined(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array, empty where it has no chunk."""
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _frame_rows(topic: str, winners: pa.Table) -> pa.Table:
    """Accepted rows as the streams see them: the declared columns, and where each row came from."""
    values = joined(winners["values"])
    count = len(values)
    position = pa.StructArray.from_arrays(
        [
            pa.repeat(topic, count),
            joined(winners["partition"]),
            joined(winners["offset"]),
            pa.repeat(pa.scalar(1, pa.int32()), count),
            pa.nulls(count, pa.string()),
        ],
        fields=list(POSITION_ARROW),
    )
    return pa.table([*values.flatten(), position], names=[*(f.name for f in values.type), POSITION])


def _counts(
    topic: str, rows: pa.Table, verdicts: npt.NDArray[np.int8], outcome: Outcome, verdict: int
) -> OutcomeCounts:
    partitions, counts = np.unique(rows["partition"].to_numpy()[verdicts == verdict], return_counts=True)
    pairs = zip(partitions.tolist(), counts.tolist(), strict=True)
    return Counter({(topic, PartitionId(partition), outcome, ""): count for partition, count in pairs})


def _refusals(
    topic: str, rows: pa.Table, *, verdicts: npt.NDArray[np.int8], said: Mapping[Position, str]
) -> Iterable[Refusal]:
    refused = rows.select(["partition", "offset", "reason", "detail"]).filter(
        pa.array((verdicts == _NOT_A_CANDIDATE) | (verdicts == CONFLICT))
    )
    for row in refused.to_pylist():
        position = (topic, PartitionId(row["partition"]), Offset(row["offset"]))
        if row["reason"] is not None:
            yield Refusal(position, "rejected", row["reason"], row["detail"])
        elif position in said:
            yield Refusal(position, "rejected", FUNCTION_RAISED, said[position])
        else:
            yield Refusal(position, "conflict", "conflict", "another content is known under this identity")
