"""Outcomes worked out by hand, and by what was meant when a random stream was written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from penstock.core.declared import Late, Topic, parse_schema
from penstock.core.errors import BugError, CallerError
from penstock.core.units import DurationUs, Offset, PartitionId
from penstock.core.values import OffsetRange, TopicPartition
from penstock.testing.model import MemoryLog, StoredRecord
from penstock.testing.streams import Sent, random_batches, random_stream, undecodable
from penstock.views.proof_decode import Problem, decode
from penstock.views.proof_judge import (
    APPLIED,
    CONFLICT,
    DUPLICATE,
    FUNCTION_RAISED,
    NO_EVENT_TIME,
    NO_IDENTITY,
    UNDECODABLE,
    Judged,
    Ledger,
    Outcome,
    judge,
)

SCHEMA = "source string, id string, amount decimal(9,2), at timestamp, note string"
TOPIC = Topic("t", parse_schema(SCHEMA), ("source", "id"), "at", Late("correct"), DurationUs(0))
AT = "2026-03-01T12:00:00Z"


def event(id_: str | None, **fields: object) -> bytes:
    return json.dumps({"source": "s", "id": id_, "at": AT} | fields).encode()


def batch(**ranges: tuple[int, int]) -> list[OffsetRange]:
    """`batch(p0=(0, 2))` takes offsets 0 and 1 of partition 0."""
    return [
        OffsetRange("t", PartitionId(int(name[1:])), Offset(start), Offset(end))
        for name, (start, end) in ranges.items()
    ]


def judged(
    partitions: Sequence[Sequence[bytes | None]],
    batches: Sequence[Sequence[OffsetRange]],
    *,
    set_aside: Sequence[tuple[int, int]] = (),
) -> Judged:
    log = MemoryLog({TopicPartition("t", PartitionId(n)): values for n, values in enumerate(partitions)})
    positions = [(PartitionId(partition), Offset(offset)) for partition, offset in set_aside]
    return judge(log, topics=[TOPIC], ledger=ledger(batches, set_aside={"t": positions}))


def ledger(
    batches: Sequence[Sequence[OffsetRange]], *, set_aside: Mapping[str, list[tuple[PartitionId, Offset]]]
) -> Ledger:
    return Ledger(cut={}, batches=batches, winners={}, set_aside=set_aside, read={}, outcomes={})


def winners(found: Judged) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in found.accepted["t"]]


def outcomes(found: Judged, partition: int) -> dict[Outcome, int]:
    return dict(found.outcomes[TopicPartition("t", PartitionId(partition))])


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (event("a"), APPLIED),
        (None, UNDECODABLE),
        (b"{", UNDECODABLE),
        (event("a", amount="1.234"), UNDECODABLE),
        (event(None, amount="1.234", at=None), UNDECODABLE),
        (event(None), NO_IDENTITY),
        (event("a", source=None), NO_IDENTITY),
        (event(None, at=None), NO_IDENTITY),
        (event("a", at=None), NO_EVENT_TIME),
        (event(""), APPLIED),
    ],
)
def test_v1_a_record_has_the_first_outcome_that_fits(value: bytes | None, outcome: Outcome) -> None:
    found = judged([[value]], [batch(p0=(0, 1))])
    assert outcomes(found, 0) == {outcome: 1}
    assert found.read == {TopicPartition("t", PartitionId(0)): 1}
    assert winners(found) == ([(0, 0)] if outcome == APPLIED else [])


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (event("a", amount="1.50"), event("a", amount=1.5), DUPLICATE),
        (event("a", amount=0), event("a", amount="-0.00"), DUPLICATE),
        (event("a", note=None), event("a", unknown=7), DUPLICATE),
        (event("a", at="2026-03-01T17:30:00.0+05:30"), event("a"), DUPLICATE),
        (event("a", amount="1.50"), event("a", amount="1.51"), CONFLICT),
        (event("a", note=None), event("a", note=""), CONFLICT),
        (event("a", note="é"), event("a", note="e\u0301"), CONFLICT),
        (event("a"), event("a", at="2026-03-01T12:00:00.000001Z"), CONFLICT),
        (event("a"), event("a", source="other"), APPLIED),
        (event("a"), event("A"), APPLIED),
    ],
)
def test_v1_a_known_identity_is_a_duplicate_only_with_equal_values(
    first: bytes, second: bytes, outcome: Outcome
) -> None:
    found = judged([[first, second]], [batch(p0=(0, 2))])
    assert outcomes(found, 0) == Counter([APPLIED, outcome])


def test_v2_within_a_batch_the_lowest_partition_and_offset_wins() -> None:
    found = judged([[event("b"), event("a", amount=2)], [event("a", amount=1)]], [batch(p1=(0, 1), p0=(0, 2))])
    assert winners(found) == [(0, 0), (0, 1)]
    assert outcomes(found, 1) == {CONFLICT: 1}


def test_v2_an_earlier_batch_wins_over_a_lower_partition() -> None:
    found = judged([[event("a")], [event("a")]], [batch(p1=(0, 1)), batch(p0=(0, 1))])
    assert winners(found) == [(1, 0)]
    assert outcomes(found, 0) == {DUPLICATE: 1}


def test_v1_records_past_the_cut_have_no_outcome() -> None:
    found = judged([[event("a"), event("b")], [event("c")]], [batch(p0=(0, 1))])
    assert found.read == {TopicPartition("t", PartitionId(0)): 1}


def test_v1_an_empty_range_has_no_outcome() -> None:
    assert judged([[event("a")]], [batch(p0=(0, 0))]).read == {}


def test_v1_no_record_is_judged_twice_where_recorded_ranges_overlap() -> None:
    found = judged([[event("a"), event("b")]], [batch(p0=(0, 2)), batch(p0=(1, 2))])
    assert outcomes(found, 0) == {APPLIED: 2}


def test_v1_records_between_recorded_ranges_stay_without_outcome() -> None:
    found = judged([[event("a"), event("b"), event("c")]], [batch(p0=(0, 1)), batch(p0=(2, 3))])
    assert winners(found) == [(0, 0), (0, 2)]


def test_v1_a_record_set_aside_claims_no_identity() -> None:
    found = judged([[event("a", amount=1), event("a", amount=2)]], [batch(p0=(0, 2))], set_aside=[(0, 0)])
    assert outcomes(found, 0) == {FUNCTION_RAISED: 1, APPLIED: 1}
    assert winners(found) == [(0, 1)]


def test_v1_what_cannot_be_decoded_is_not_set_aside() -> None:
    found = judged([[b"{", event(None), event("a", at=None)]], [batch(p0=(0, 3))], set_aside=[(0, 0), (0, 1), (0, 2)])
    assert outcomes(found, 0) == {UNDECODABLE: 1, NO_IDENTITY: 1, NO_EVENT_TIME: 1}


def test_identities_of_two_topics_do_not_meet() -> None:
    twin = replace(TOPIC, name="u")
    first, second = TopicPartition("t", PartitionId(0)), TopicPartition("u", PartitionId(0))
    ranges = [OffsetRange(where.topic, where.partition, Offset(0), Offset(1)) for where in (first, second)]
    log = MemoryLog({first: [event("a")], second: [event("a")]})
    found = judge(log, topics=[TOPIC, twin], ledger=ledger([ranges], set_aside={}))
    assert found.outcomes == {first: {APPLIED: 1}, second: {APPLIED: 1}}


def test_a_topic_that_the_file_does_not_declare_is_named() -> None:
    strange = [[OffsetRange("u", PartitionId(0), Offset(0), Offset(0))]]
    with pytest.raises(CallerError, match="topic u"):
        judged([[]], strange)


def test_a_log_that_repeats_an_offset_is_a_bug() -> None:
    class Repeating(MemoryLog):
        def read_records(self, wanted: OffsetRange, /) -> Iterator[StoredRecord]:
            yield from [StoredRecord(Offset(0), event("a"))] * 2

    log = Repeating({TopicPartition("t", PartitionId(0)): []})
    with pytest.raises(BugError, match="offsets of a partition grow"):
        judge(log, topics=[TOPIC], ledger=ledger([batch(p0=(0, 2))], set_aside={}))


WIDE = (
    "a string, b boolean, c byte, d short, e int, f long, g float, h double, i decimal(9,2), j date, k timestamp,"
    " l decimal(3,3), m decimal(38,0)"
)
WIDE_TOPIC = Topic("t", parse_schema(WIDE), ("f", "c"), "k", Late("correct"), DurationUs(0))


@pytest.mark.parametrize("topic", [TOPIC, WIDE_TOPIC], ids=["narrow", "wide"])
@pytest.mark.parametrize("seed", range(20))
def test_v1_random_streams_in_any_cut_have_the_outcomes_that_were_meant(topic: Topic, seed: int) -> None:
    sent = random_stream(topic, seed=seed, count=200)
    log = MemoryLog.of({"t": sent})
    batches = random_batches(log.ends, seed=seed, size_max=1 + seed)
    found = judge(log, topics=[topic], ledger=ledger(batches, set_aside={}))
    meant = _as_meant(sent, batches)
    assert {where.partition: dict(counts) for where, counts in found.outcomes.items()} == meant
    assert found.read == log.ends


def _as_meant(sent: list[Sent], batches: list[list[OffsetRange]]) -> dict[int, dict[Outcome, int]]:
    """The outcomes by what was written down beside each record; no value is looked at."""
    queues = {partition: [each for each in sent if each.partition == partition] for partition in range(3)}
    flaws = {"undecodable": UNDECODABLE, "no identity": NO_IDENTITY, "no event time": NO_EVENT_TIME}
    first: dict[int, int] = {}
    counts: dict[int, Counter[Outcome]] = {}
    for ranges in batches:
        for each in sorted(ranges, key=lambda each: each.partition):
            for record in queues[each.partition][each.start : each.end]:
                outcome = flaws.get(str(record.flaw))
                if record.event is not None:
                    is_first = record.event not in first
                    same = first.setdefault(record.event, record.contents) == record.contents
                    outcome = APPLIED if is_first else DUPLICATE if same else CONFLICT
                assert outcome is not None
                counts.setdefault(each.partition, Counter())[outcome] += 1
    return {partition: dict(found) for partition, found in counts.items()}


def test_random_streams_hold_every_outcome_and_repeat_by_seed() -> None:
    sent = random_stream(TOPIC, seed=1, count=300)
    log = MemoryLog.of({"t": sent})
    found = judge(log, topics=[TOPIC], ledger=ledger(random_batches(log.ends, seed=1), set_aside={}))
    assert {*Counter(outcome for counts in found.outcomes.values() for outcome in counts)} == {
        APPLIED,
        DUPLICATE,
        CONFLICT,
        UNDECODABLE,
        NO_IDENTITY,
        NO_EVENT_TIME,
    }
    assert sent == random_stream(TOPIC, seed=1, count=300)
    assert sent != random_stream(TOPIC, seed=2, count=300)


def test_every_broken_value_of_a_stream_cannot_be_decoded() -> None:
    columns = WIDE_TOPIC.columns
    assert [value for value in undecodable(columns) if not isinstance(decode(value, columns), Problem)] == []
