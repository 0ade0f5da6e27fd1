"""What every test starts from: no setting of the machine, an empty folder to work in where it asks for one."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# A failing example prints how to run it again. No deadline: two busy cores say nothing about the code.
settings.register_profile("penstock", deadline=None, print_blob=True)
settings.load_profile("penstock")


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)
