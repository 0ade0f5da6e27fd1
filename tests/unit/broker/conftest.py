from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.broker.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    while made.flush:
        made.finish_flush()
    yield made
    with suppress(Exception):
        made.node.close()
