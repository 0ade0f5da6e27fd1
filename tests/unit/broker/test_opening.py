"""The first start, on a disk that fills up at any of its writes."""

from __future__ import annotations

from pathlib import Path

from penstock.broker.config import BrokerConfig
from penstock.broker.opening import open_node
from penstock.core.errors import PenstockError
from penstock.core.units import TimestampMs
from penstock.testing.faulty_files import Fault, FaultyFiles

CONFIG = BrokerConfig(Path("/data"))
NOW_MS = TimestampMs(1_700_000_000_000)


def first_start(files: FaultyFiles) -> str | None:
    """The name that the cluster got, or None where the start failed."""
    try:
        return open_node(CONFIG, files=files, now_ms=NOW_MS).topics.cluster_id
    except PenstockError:
        return None


def test_l1_a_first_start_without_room_fails_or_keeps_the_name_of_its_cluster() -> None:
    names, call = list[str | None](), 0
    files = FaultyFiles()
    while call <= files.calls:
        call, files = call + 1, FaultyFiles()
        files.fault_at(call, fault=Fault.FULL)
        names.append(first_start(files))
        if names[-1]:
            assert open_node(CONFIG, files=files.after_kill(), now_ms=NOW_MS).topics.cluster_id == names[-1], call
    assert None in names
    assert names[-1]
