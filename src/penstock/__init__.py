"""Accountable stream processing: a durable log, pipelines on Spark, and views that can be proved.

The names below are what a pipeline file imports. They load on first use, so that the broker starts
without loading what only pipelines need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.pipeline import agg
    from penstock.pipeline.declare import Pipeline, correct, drop, halt, tumbling

__all__ = ["Pipeline", "agg", "correct", "drop", "halt", "tumbling"]


def __getattr__(name: str) -> object:
    if name == "agg":
        return import_module("penstock.pipeline.agg")
    if name in __all__:
        return getattr(import_module("penstock.pipeline.declare"), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
