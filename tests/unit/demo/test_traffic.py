"""What the producer sends follows from the seed, and each kind of message is what it claims to be."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta

import pytest

from penstock.core.declared import parse_schema
from penstock.demo.traffic import (
    ACCOUNTS,
    OUTCOME_OF,
    REMEMBERED,
    Kind,
    Message,
    Request,
    Traffic,
    read_units,
    spell_units,
    spoilt,
)
from penstock.views.proof_decode import Problem, decode

NOW_US = 1_790_000_000_000_000
SCHEMA = parse_schema(
    "id string, source string, account string, model string, quantity decimal(18,6), accepted_at timestamp"
)


def messages(count: int, *, seed: int = 7, run: int = 1) -> list[Message]:
    traffic = Traffic(seed=seed, run=run)
    return [traffic.message(number, now_us=NOW_US + number * 1_000) for number in range(count)]


def fields(message: Message) -> dict[str, str]:
    assert message.value is not None
    return dict(json.loads(message.value))


def test_the_same_seed_and_run_send_the_same_messages() -> None:
    assert messages(2_000) == messages(2_000)
    assert messages(50, seed=8) != messages(50)


def test_no_run_repeats_the_ids_of_another() -> None:
    first, second = (
        {fields(message)["id"] for message in messages(500, run=run) if OUTCOME_OF[message.kind] == "applied"}
        for run in (1, 2)
    )
    assert not first & second


def test_a_retry_repeats_an_earlier_request_byte_for_byte_in_the_same_partition() -> None:
    earlier: set[tuple[bytes, bytes | None]] = set()
    retries = 0
    for message in messages(3_000):
        if message.kind is Kind.RETRY:
            assert (message.key, message.value) in earlier
            retries += 1
        elif OUTCOME_OF[message.kind] == "applied":
            earlier.add((message.key, message.value))
    assert retries > 0


def test_a_conflict_claims_an_earlier_id_with_another_quantity() -> None:
    sent: dict[tuple[str, str], dict[str, str]] = {}
    conflicts = 0
    for message in messages(5_000):
        if message.kind is Kind.CONFLICT:
            claimed = fields(message)
            original = sent[claimed["source"], claimed["id"]]
            assert read_units(claimed["quantity"]) == read_units(original["quantity"]) + 1
            assert {**claimed, "quantity": original["quantity"]} == original
            conflicts += 1
        elif OUTCOME_OF[message.kind] == "applied":
            sent[fields(message)["source"], fields(message)["id"]] = fields(message)
    assert conflicts > 0


def test_ids_are_claimed_once_but_for_retries_and_conflicts() -> None:
    ids = [fields(message)["id"] for message in messages(5_000) if OUTCOME_OF[message.kind] == "applied"]
    assert len(ids) == len(set(ids))


def test_each_kind_has_about_its_share() -> None:
    counts = Counter(message.kind for message in messages(20_000))
    # Within four standard deviations of a binomial count.
    for kind, share in {
        Kind.RETRY: 600,
        Kind.DISORDERED: 1_000,
        Kind.LATE: 200,
        Kind.FREE: 200,
        Kind.UNREADABLE: 100,
    }.items():
        assert abs(counts[kind] - share) < 4 * share**0.5
    assert 28 < counts[Kind.CONFLICT] < 92


def test_times_are_as_late_as_the_kind_says() -> None:
    for number, message in enumerate(messages(5_000)):
        if OUTCOME_OF[message.kind] != "applied":
            continue
        accepted = datetime.fromisoformat(fields(message)["accepted_at"])
        behind = datetime.fromtimestamp(0, accepted.tzinfo) + timedelta(microseconds=NOW_US + number * 1_000) - accepted
        expected = {
            Kind.DISORDERED: (timedelta(0), timedelta(minutes=2)),
            Kind.LATE: (timedelta(minutes=2), timedelta(days=3, minutes=2)),
        }.get(message.kind, (timedelta(0), timedelta(0)))
        assert expected[0] <= behind <= expected[1]
        assert (read_units(fields(message)["quantity"]) == 0) == (message.kind is Kind.FREE)


def test_every_account_uses_models_and_the_first_ones_most() -> None:
    counts = Counter(message.key.decode() for message in messages(5_000))
    assert set(counts) == set(ACCOUNTS)
    assert counts.most_common(1)[0][0] == ACCOUNTS[0]


def test_no_spoilt_message_is_an_event_by_the_rules_of_the_proof() -> None:
    request = Request("r1", "gateway-1", "northwind", "mle-code", 1_500_000, NOW_US)
    assert not isinstance(decode(request.as_json(), SCHEMA), Problem)
    for value in spoilt(request):
        row = decode(value, SCHEMA)
        assert isinstance(row, Problem) or row[0] is None or row[5] is None, value


def test_memory_of_the_producer_is_bounded() -> None:
    traffic = Traffic(seed=1, run=1)
    for number in range(REMEMBERED + 500):
        traffic.message(number, now_us=NOW_US)
    assert traffic.remembered == REMEMBERED


@pytest.mark.parametrize(("units", "text"), [(0, "0.000000"), (1, "0.000001"), (12_345_678, "12.345678")])
def test_quantities_are_spelt_exactly(units: int, text: str) -> None:
    assert spell_units(units) == text
    assert read_units(text) == units
