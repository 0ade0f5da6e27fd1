"""Kernels run where nothing can be kept on disk, too."""

from __future__ import annotations

import pytest

from penstock.kernels import compiled as subject


def refuse(_function: object) -> None:
    raise RuntimeError("no locator available")


def test_a_function_compiles_where_no_folder_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_KernelCache", refuse)

    @subject.compiled
    def double(value: int) -> int:
        return value * 2

    assert double(21) == 42
