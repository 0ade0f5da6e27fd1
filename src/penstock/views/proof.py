"""Compare what a pipeline recorded with what the log alone proves, and name every difference.

V1   Recorded counts of outcomes are compared per partition with the judged ones, and with the recorded count of reads.
V2   Views, identities and plans are compared to the last row with what `proof_judge` and `proof_fold` compute. The four
     modules of the proof import `core` and each other, and are handed the protocol's client: no code of the pipeline.
Limit: a view and its recomputation are held in memory together. What the user's function makes of the accepted rows is
not judged here: whoever runs it says so in `Report.said`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from penstock.core.declared import FoldView
from penstock.core.units import Offset, PartitionId
from penstock.core.values import Cut, TopicPartition
from penstock.views.proof_decode import Value
from penstock.views.proof_fold import Folded, GroupKey, fold, plain
from penstock.views.proof_judge import Judged, Ledger, Outcomes


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it must be; `where` names a view or a partition, `what` a row, a column or a count."""

    where: str
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class ProvedView:
    """How many rows of a view were compared, and where they differ."""

    view: str
    rows: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A whole proof at one cut; `said` tells which parts of the pipeline's own code took part in it."""

    pipeline: str
    cut: Cut
    views: tuple[ProvedView, ...]
    read: Mapping[TopicPartition, int]
    expected: Outcomes
    recorded: Outcomes
    log_differences: tuple[Difference, ...]
    said: str

    @property
    def differences(self) -> tuple[Difference, ...]:
        return (*self.log_differences, *(found for view in self.views for found in view.differences))


def prove_view(
    view: FoldView, *, rows: Iterable[Mapping[str, object]], actual: Iterable[Mapping[str, object]]
) -> ProvedView:
    """Fold the rows of the view's stream and compare with the rows that the view holds."""
    expected, held = fold(rows, view=view), list(actual)
    found = differences(view, expected=expected, actual=held)
    return ProvedView(view.name, max(len(expected), len(held)), tuple(found))


def differences(view: FoldView, *, expected: Folded, actual: Iterable[Mapping[str, object]]) -> list[Difference]:
    """Rows that a view lacks or has too many, and columns that differ; numbers and times compare by value.

    >>> from penstock.core.declared import Aggregate, ColumnType, Key, Measure
    >>> requests = Measure("requests", Aggregate("count"), ColumnType("long"))
    >>> view = FoldView("by_model", "s", None, (Key("model", ColumnType("string")),), (requests,))
    >>> for found in differences(view, expected={("a",): {"requests": 2}}, actual=[{"model": "a", "requests": 3}]):
    ...     print(found)
    by_model: model='a', requests: expected 2, found 3
    """
    missing = dict(expected)
    found: list[Difference] = []
    for row in actual:
        key = tuple(plain(row[column.name], kind=column.type) for column in view.key_columns)
        held = {measure.name: plain(row[measure.name], kind=measure.type) for measure in view.measures}
        wanted = missing.pop(key, None)
        if wanted is not None:
            found.extend(_column_differences(view, key=key, expected=wanted, held=held))
        else:
            surplus = "no second row" if key in expected else "no row"
            found.append(Difference(view.name, _named(view, key=key), surplus, _spelt_row(held)))
    lost = (Difference(view.name, _named(view, key=key), _spelt_row(row), "no row") for key, row in missing.items())
    return sorted([*found, *lost], key=lambda difference: difference.what)


def _column_differences(
    view: FoldView, *, key: GroupKey, expected: Mapping[str, Value], held: Mapping[str, Value]
) -> Iterator[Difference]:
    for name, value in expected.items():
        # One NaN stands for all, so it is found by identity: it equals nothing.
        if held[name] is not value and held[name] != value:
            yield Difference(view.name, f"{_named(view, key=key)}, {name}", _spelt(value), _spelt(held[name]))


def log_differences(judged: Judged, *, ledger: Ledger) -> list[Difference]:
    """All that the ledger records otherwise than the log proves it: plans, identities, counts."""
    plans, winners = _plan_differences(judged, ledger=ledger), _winner_differences(judged, ledger=ledger)
    return [*plans, *winners, *outcome_differences(judged, ledger=ledger)]


def _plan_differences(judged: Judged, *, ledger: Ledger) -> Iterator[Difference]:
    """Batches take each partition from its start to the cut, each where the one before it ended."""
    reached = dict(judged.log_start)
    for number, ranges in enumerate(ledger.batches, start=1):
        for each in sorted(ranges):
            where = TopicPartition(each.topic, each.partition)
            start = reached.get(where, each.start)
            if each.start != start or each.end < each.start:
                yield Difference(str(where), f"range of batch {number}", f"a start at {start}", str(each))
            reached[where] = each.end
    cut = {TopicPartition(topic, p): end for topic, ends in ledger.cut.items() for p, end in ends.items()}
    for where in sorted(reached):
        if cut.get(where) != reached[where]:
            yield Difference(str(where), "cut", str(reached[where]), _spelt(cut.get(where)))


def _winner_differences(judged: Judged, *, ledger: Ledger) -> Iterator[Difference]:
    for topic in sorted({*judged.accepted, *ledger.winners}):
        computed = {(event.partition, event.offset) for event in judged.accepted.get(topic, ())}
        recorded = set(ledger.winners.get(topic, ()))
        for position in sorted(computed ^ recorded):
            yield _winner_difference(topic, position=position, is_computed=position in computed)
        for (partition, offset), count in sorted(Counter(ledger.winners.get(topic, ())).items()):
            if count > 1:
                what = f"identity of the record at offset {offset}"
                yield Difference(f"{topic}-{partition}", what, "recorded once", f"recorded {count} times")


def _winner_difference(topic: str, *, position: tuple[PartitionId, Offset], is_computed: bool) -> Difference:
    partition, offset = position
    claims = ("claimed here", "not recorded") if is_computed else ("not claimed here", "recorded")
    return Difference(f"{topic}-{partition}", f"identity of the record at offset {offset}", *claims)


def outcome_differences(judged: Judged, *, ledger: Ledger) -> list[Difference]:
    """Recorded counts that are not the judged ones, and recorded outcomes that do not add up to the recorded reads."""
    found: list[Difference] = []
    for where in sorted({*judged.outcomes, *ledger.outcomes, *ledger.read}):
        for what, (expected, recorded) in sorted(_counts(judged, ledger=ledger, where=where).items()):
            if expected != recorded:
                found.append(Difference(str(where), what, str(expected), str(recorded)))
    return found


def _counts(judged: Judged, *, ledger: Ledger, where: TopicPartition) -> dict[str, tuple[int, int]]:
    expected, recorded = judged.outcomes.get(where, {}), ledger.outcomes.get(where, {})
    counts = {str(each): (expected.get(each, 0), recorded.get(each, 0)) for each in {*expected, *recorded}}
    read = ledger.read.get(where, 0)
    return counts | {"read": (judged.read.get(where, 0), read), "sum of outcomes": (read, sum(recorded.values()))}


def _named(view: FoldView, *, key: GroupKey) -> str:
    pairs = zip(view.key_columns, key, strict=True)
    return ", ".join(f"{column.name}={_spelt(value)}" for column, value in pairs) or "the only row"


def _spelt_row(row: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={_spelt(value)}" for name, value in row.items())


def _spelt(value: Value) -> str:
    match value:
        case None:
            return "null"
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case str():
            return repr(value)
    return str(value)
