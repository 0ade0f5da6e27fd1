"""How kernels are compiled: once, and kept on disk, so that every worker process loads instead of compiling.

The compiled code lies in `__pycache__` beside the source, or under `NUMBA_CACHE_DIR`, or in the user's cache folder
where the package may not be written. Where none of these may be written it is compiled in every process.
A cached function is checked against its own file alone: whatever it calls stands in the same file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on the first call with given types; the lock of the interpreter is not held meanwhile."""
    try:
        made: Callable[P, R] = njit(function, cache=True, nogil=True)
    except RuntimeError:  # no folder for the cache can be written
        made = njit(function, nogil=True)
    return made
