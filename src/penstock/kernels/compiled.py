"""How kernels are compiled: once, and kept on disk, so that every worker process loads instead of compiling.

The compiled code lies in `__pycache__` beside the source, or under `NUMBA_CACHE_DIR`, or in the user's cache folder
where the package may not be written. Where none of these may be written it is compiled in every process: seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache

P = ParamSpec("P")
R = TypeVar("R")

word: Any = np.uint64
signed: Any = np.int64
"""64 bits that wrap. A type checker takes them for what they are mixed with."""

_SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).digest()


class _KernelCache(FunctionCache):
    """Numba checks a cached function against its own file alone; what it calls may stand in another of this folder."""

    def _index_key(self, *args: Any) -> Any:
        return (super()._index_key(*args), _SOURCES)  # type: ignore[no-untyped-call]


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on the first call with given types; the lock of the interpreter is not held meanwhile."""
    made: Any = njit(function, nogil=True, error_model="numpy")
    with suppress(RuntimeError):  # no folder for the cache can be written
        # What `cache=True` does, with a key of ours.
        made._cache = _KernelCache(function)  # type: ignore[no-untyped-call]
    checked: Callable[P, R] = made
    return checked
