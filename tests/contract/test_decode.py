"""The pipeline's decoder agrees with every case of the table of decode rules."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.declared import parse_schema
from penstock.kernels.decode import decode, describe
from tests.contract.decode_cases import CASES, Case


def decoded(case: Case) -> tuple[object, ...] | str:
    raw, columns = case.raw or b"", parse_schema(case.schema)
    length = -1 if case.raw is None else len(raw)
    # Records before and after, so that a read past either end shows.
    payload = np.frombuffer(b'{"v":7}' + raw + b'}"1,', np.uint8)
    out = decode(payload, np.array([0, 7, 0]), np.array([7, length, 7]), columns)
    if out.problem[1]:
        return describe(int(out.problem[1]), int(out.field[1]), columns=columns)
    return tuple(column[1].as_py() for column in out.columns.columns)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_value_decodes_as_the_table_says(case: Case) -> None:
    got = decoded(case)
    assert got == case.expected
    assert [type(value) for value in got] == [type(value) for value in case.expected]
    assert [repr(value) for value in got if isinstance(value, float)] == [
        repr(value) for value in case.expected if isinstance(value, float)
    ]
