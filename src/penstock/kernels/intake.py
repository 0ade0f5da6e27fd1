"""Decide which events of a batch are accepted, and which repeat or contradict an event with the same identity.

V1   Every candidate has exactly one verdict.
O3   The verdicts depend on identities, contents and positions, never on the order of the arrays.

The first committed event of an identity wins; within a batch the one at the lowest (partition, offset). Whatever else
has its identity is a duplicate where the content is the winner's, and a conflict where it is not. Worst case: two
identities that share their first 64 bits make the sort twice as long.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
"""128-bit hashes, a row of two words each."""

ACCEPTED, DUPLICATE, CONFLICT = 0, 1, 2


def decide(
    ids: Hashes,
    contents: Hashes,
    partitions: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    known: npt.NDArray[np.bool_],
    known_contents: Hashes,
) -> npt.NDArray[np.int8]:
    """The verdict of every candidate of one topic; `known` rows met their identity in an earlier batch.

    >>> ids = np.array([[7, 7], [7, 7], [7, 7]], np.uint64)
    >>> contents = np.array([[1, 0], [1, 0], [2, 0]], np.uint64)
    >>> zeros, first = np.zeros(3, np.int64), np.array([0, 1, 2])
    >>> decide(ids, contents, zeros, first, np.zeros(3, bool), contents).tolist()
    [0, 1, 2]
    """
    if len(ids) == 0:
        return np.zeros(0, np.int8)
    order, begins = _groups(ids)
    starts = np.flatnonzero(begins)
    rank = _rank(partitions, offsets)
    row_of_rank = np.empty_like(rank)
    row_of_rank[rank] = np.arange(len(rank))
    first = row_of_rank[np.minimum.reduceat(rank[order], starts)]
    winner = np.empty_like(rank)
    winner[order] = first[np.cumsum(begins) - 1]
    wanted = np.where(known[:, None], known_contents, contents[winner])
    verdicts = np.where((contents == wanted).all(axis=1), DUPLICATE, CONFLICT).astype(np.int8)
    verdicts[(winner == np.arange(len(rank))) & ~known] = ACCEPTED
    return verdicts


def _groups(ids: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """An order that brings equal ids together, and where in it another id begins."""
    order = np.argsort(ids[:, 0])
    high, low = _changes(ids[order, 0]), _changes(ids[order, 1])
    if (low & ~high).any():
        order = np.lexsort((ids[:, 1], ids[:, 0]))
        high, low = _changes(ids[order, 0]), _changes(ids[order, 1])
    return order, high | low


def _changes(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    return np.concatenate(([True], values[1:] != values[:-1]))


def _rank(partitions: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Every row's place in the order of (partition, offset)."""
    rank = np.arange(len(offsets))
    same, up = partitions[1:] == partitions[:-1], partitions[1:] > partitions[:-1]
    if not (up | (same & (offsets[1:] > offsets[:-1]))).all():
        rank[np.lexsort((offsets, partitions))] = np.arange(len(offsets))
    return rank
