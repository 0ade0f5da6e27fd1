"""One broker and one database for the tests of a file; every test has a pipeline with names of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing.pipelines import Plant, running_plant


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    with running_plant(tmp_path_factory.mktemp("plant")) as plant:
        yield plant
