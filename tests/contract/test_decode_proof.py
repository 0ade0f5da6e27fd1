"""The verifier's decoder reads every case of the shared table as the table says."""

from __future__ import annotations

import pytest

from penstock.core.declared import parse_schema
from penstock.views.proof_decode import Problem, decode
from tests.contract.decode_cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_v2_the_verifier_decodes_as_the_rules_say(case: Case) -> None:
    found = decode(case.raw, parse_schema(case.schema))
    if isinstance(case.expected, str):
        assert found == Problem(case.expected)
    else:
        assert found == case.expected
        assert [type(value) for value in found] == [type(value) for value in case.expected]
