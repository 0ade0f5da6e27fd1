"""A partition against a list, on a disk that fails, tears, loses its power."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from penstock.core.errors import CallerError, CorruptError, PenstockError
from penstock.core.units import Offset, TimestampMs
from penstock.log.partition import Appended, Duplicate, Refused
from penstock.testing.faulty_files import Fault, FaultyFiles, PowerCut
from tests.unit.log.partitions import NAME, append, batch, fetch, new_partition, open_store, records_in, values_from

PRODUCER = 7
SIZES = st.sampled_from((1, 1, 700, 3_000))
FAULTS = st.sampled_from((Fault.FAIL, Fault.FULL, Fault.CUT, Fault.TEAR))


@dataclass(frozen=True)
class Batch:
    base: int
    values: tuple[str, ...]
    at: int
    sequence: int | None


class PartitionMachine(RuleBasedStateMachine):
    """The model is the list of batches appended, and how many records of it are acknowledged."""

    drops_syncs = False

    @initialize()
    def begin(self) -> None:
        self.files = FaultyFiles()
        self.files.drops_syncs = self.drops_syncs
        self.store, self.partition = new_partition(self.files)
        self.batches: list[Batch] = []
        self.acknowledged = 0
        self.clock = 1_000
        self.written = 0

    @property
    def end(self) -> int:
        return self.batches[-1].base + len(self.batches[-1].values) if self.batches else 0

    @property
    def next_sequence(self) -> int:
        return sum(len(held.values) for held in self.batches if held.sequence is not None)

    def data(self, held: Batch) -> bytes:
        if held.sequence is None:
            return batch(*held.values, at=held.at)
        return batch(*held.values, at=held.at, producer=PRODUCER, sequence=held.sequence)

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=3), step=st.integers(-5, 20), idempotent=st.booleans())
    def append(self, sizes: list[int], step: int, *, idempotent: bool) -> None:
        self.clock = max(self.clock + step, 0)
        self.written += 1
        values = tuple(f"{self.written}.{i}".ljust(size, "x") for i, size in enumerate(sizes))
        held = Batch(self.end, values, self.clock, self.next_sequence if idempotent else None)
        answer = append(self.partition, self.data(held))
        assert answer == Appended(Offset(held.base), Offset(self.end + len(values)))
        self.batches.append(held)

    @rule(back=st.integers(1, 7))
    def repeat(self, back: int) -> None:
        stored = [held for held in self.batches if held.sequence is not None]
        if back > len(stored):
            return
        held = stored[-back]
        answer = append(self.partition, self.data(held))
        if back <= 5:
            assert answer == Duplicate(Offset(held.base), Offset(held.base + len(held.values)))
        else:
            assert isinstance(answer, Refused)
            assert answer.error.row.kind is CallerError

    @rule(ahead=st.integers(1, 3))
    def skip_ahead(self, ahead: int) -> None:
        if self.next_sequence:
            answer = append(self.partition, batch("gap", producer=PRODUCER, sequence=self.next_sequence + ahead))
            assert isinstance(answer, Refused)

    @rule()
    def flush(self) -> None:
        if round_ := self.store.take_round():
            round_.run()
            self.store.settle(round_)
            self.acknowledged = self.end

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=6), idempotent=st.booleans())
    def append_several(self, sizes: list[int], *, idempotent: bool) -> None:
        for size in sizes:
            self.append([size], 1, idempotent=idempotent)

    @rule(call=st.integers(1, 6), fault=FAULTS, appended=st.booleans(), seed=st.integers(0, 99))
    def flush_with_fault(self, call: int, fault: Fault, *, appended: bool, seed: int) -> None:
        self.append([1], 1, idempotent=True)
        round_ = self.store.take_round()
        assert round_
        taken = self.end
        self.files.fault_at(self.files.calls + call, fault=fault)
        try:
            round_.run()
        except (PowerCut, CorruptError):
            self.crash(seed)
            return
        finally:
            self.files.clear_faults()
        if appended:
            self.append([1], 1, idempotent=False)
        if self.store.settle(round_).refused:
            self.forget_from(self.acknowledged)
        else:
            self.acknowledged = taken

    def forget_from(self, offset: int) -> None:
        self.batches = [held for held in self.batches if held.base < offset]

    @rule(call=st.integers(1, 3), idempotent=st.booleans())
    def find_the_disk_full(self, call: int, *, idempotent: bool) -> None:
        """Whatever the round had is taken back, and the same batch may be sent again."""
        self.append([1], 1, idempotent=idempotent)
        self.flush_with_fault(call, Fault.FULL, appended=True, seed=1)

    @rule(seed=st.integers(0, 99))
    def crash(self, seed: int) -> None:
        """Even seeds cut the power, odd ones kill the process."""
        self.files = self.files.after_kill() if seed % 2 else self.files.after_power_cut(seed=seed)
        self.reopen()

    @rule(call=st.integers(1, 30), fault=st.sampled_from((Fault.CUT, Fault.TEAR, Fault.FAIL)), seed=st.integers(0, 99))
    def crash_twice(self, call: int, fault: Fault, seed: int) -> None:
        """The second time while the log is being recovered."""
        self.files = self.files.after_kill() if seed % 3 else self.files.after_power_cut(seed=seed)
        self.files.fault_at(self.files.calls + call, fault=fault)
        with suppress(PowerCut, PenstockError):
            open_store(self.files)
        self.crash(seed)

    @rule()
    def stop_clean(self) -> None:
        self.store.close()
        self.acknowledged = self.end
        self.reopen()
        assert self.store.was_clean

    def reopen(self) -> None:
        self.store = open_store(self.files)
        assert not self.store.quarantined, self.store.quarantined
        assert not self.store.losses, self.store.losses
        assert NAME in self.store.partitions
        self.partition = self.store.partitions[NAME]
        found = self.partition.end
        assert self.acknowledged <= found <= self.end, "what was acknowledged is there, and nothing else"
        assert found in {0, *(held.base + len(held.values) for held in self.batches)}, "no half batch"
        self.forget_from(found)
        self.acknowledged = found
        assert self.partition.high_watermark == found

    @rule(data=st.data(), max_bytes=st.sampled_from((1, 2_000, 1 << 20)))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        if not self.acknowledged:
            return
        offset = data.draw(st.integers(0, self.acknowledged - 1))
        taken = fetch(self.partition, offset, max_bytes=max_bytes)
        expected = [held for held in self.batches if offset < held.base + len(held.values) <= self.acknowledged]
        records = [(held.base + i, value) for held in expected for i, value in enumerate(held.values)]
        found = records_in(taken)
        assert found == records[: len(found)]
        assert len(found) >= len(expected[0].values)
        assert len(taken) <= max_bytes or len(found) == len(expected[0].values)

    @rule(back=st.integers(-3, 60))
    def find_by_time(self, back: int) -> None:
        wanted = self.clock - back
        durable = [held for held in self.batches if held.base < self.acknowledged]
        times = [(held.at + i, held.base + i) for held in durable for i in range(len(held.values))]
        expected = next(((offset, time) for time, offset in times if time >= wanted), None)
        search = self.partition.find_by_time(TimestampMs(wanted))
        hit = search.run() if search else None
        assert (hit and (hit.offset, hit.timestamp_ms)) == expected

    @invariant()
    def reader_sees_what_is_durable(self) -> None:
        assert self.partition.high_watermark == self.acknowledged
        assert self.partition.end == self.end

    def teardown(self) -> None:
        self.crash(2)
        expected = [value for held in self.batches for value in held.values]
        assert values_from(self.partition) == expected


class ForgetfulDisk(PartitionMachine):
    drops_syncs = True


SETTINGS = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


def test_l1_l2_l3_a_partition_is_a_list_through_faults_kills_and_power_cuts() -> None:
    run_state_machine_as_test(PartitionMachine, settings=SETTINGS)


def test_the_same_check_fails_on_a_disk_whose_syncs_do_nothing() -> None:
    no_shrinking = settings(SETTINGS, phases=[Phase.generate], print_blob=False, report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(ForgetfulDisk, settings=no_shrinking)
