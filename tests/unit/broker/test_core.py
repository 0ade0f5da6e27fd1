"""What the core wants done about each event, as lists of effects."""

from __future__ import annotations

import struct

import pytest

from penstock.broker.calls import ADMITTED_BYTES_MAX, BODY_SECONDS, IN_FLIGHT_MAX
from penstock.broker.events import (
    SMALL_FRAME_BYTES,
    Admit,
    Close,
    ConnectionClosed,
    ConnectionDrained,
    Effect,
    Flush,
    FlushCompleted,
    FrameAnnounced,
    Pause,
    Reply,
    RequestArrived,
    Resume,
    Timer,
    TimerFired,
)
from penstock.protocol.apis import VERSIONS, ApiKey, KafkaError
from penstock.protocol.codec import request_class, response_class
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.fetch import FetchResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.unit.broker.machine import Machine, answer, answers, batch, fetch_request, kinds, produce_request


def frame(key: int, version: int, rest: bytes = b"") -> memoryview:
    return memoryview(struct.pack(">hhi", key, version, 7) + rest)


def test_l1_a_produce_is_answered_when_the_flush_that_covers_it_is_done(machine: Machine) -> None:
    machine.make_topic()
    effects = machine.send(produce_request(batch(b"a")), version=9)
    assert kinds(effects) == [Flush]
    assert kinds(machine.finish_flush()) == [Reply]


def test_l1_what_comes_while_a_round_runs_belongs_to_the_next_one(machine: Machine) -> None:
    machine.make_topic()
    assert kinds(machine.send(produce_request(batch(b"a")), version=9)) == [Flush]
    assert machine.send(produce_request(batch(b"b")), version=9) == []
    assert machine.send(produce_request(batch(b"c")), version=9) == []
    assert kinds(machine.finish_flush()) == [Reply, Flush]
    effects = machine.finish_flush()
    assert [
        r.responses[0].partition_responses[0].base_offset for r in answers(effects, ProduceResponse, version=9)
    ] == [
        1,
        2,
    ]


def test_l1_a_reader_sees_nothing_before_the_flush_and_is_woken_by_it(machine: Machine) -> None:
    machine.make_topic()
    machine.send(produce_request(batch(b"a")), version=9)
    waiting = machine.send(fetch_request(0), version=11, connection=2)
    assert waiting == [Pause(2), Timer(0.5)]
    effects = machine.finish_flush()
    assert kinds(effects) == [Reply, Reply, Resume]
    replies = [effect for effect in effects if isinstance(effect, Reply)]
    assert [reply.connection for reply in replies] == [1, 2]
    row = answer(replies[1], FetchResponse, version=11).responses[0].partitions[0]
    assert (row.high_watermark, len(row.records or b"")) == (1, len(batch(b"a")))


def test_a_fetch_that_finds_nothing_is_answered_empty_when_its_time_is_over(machine: Machine) -> None:
    machine.make_topic()
    machine.send(fetch_request(0, max_wait_ms=200), version=11)
    machine.clock.advance(0.1)
    assert machine.happen(TimerFired()) == [Timer(0.2)]
    machine.clock.advance(0.1)
    effects = machine.happen(TimerFired())
    assert kinds(effects) == [Reply, Resume]
    assert answers(effects, FetchResponse, version=11)[0].responses[0].partitions[0].records == b""


def test_a_fetch_waits_until_there_is_as_much_as_it_wants(machine: Machine) -> None:
    machine.make_topic()
    size = len(batch(b"a"))
    machine.send(fetch_request(0, min_bytes=size + 1), version=11, connection=2)
    machine.send(produce_request(batch(b"a")), version=9)
    assert kinds(machine.finish_flush()) == [Reply]
    machine.send(produce_request(batch(b"b")), version=9)
    assert kinds(machine.finish_flush()) == [Reply, Reply, Resume]


def test_answers_leave_in_the_order_of_the_requests(machine: Machine) -> None:
    machine.make_topic()
    machine.send(produce_request(batch(b"a")), version=9)
    assert machine.send(MetadataRequest(topics=[]), version=9) == []
    effects = machine.finish_flush()
    replies = [effect for effect in effects if isinstance(effect, Reply)]
    correlation_ids = [int.from_bytes(reply.buffers[0][4:8], "big") for reply in replies]
    assert correlation_ids == [machine.correlation_id - 1, machine.correlation_id]


def test_acks_0_has_no_answer(machine: Machine) -> None:
    machine.make_topic()
    machine.send(produce_request(batch(b"a"), acks=0), version=9)
    assert machine.finish_flush() == []
    assert machine.node.is_idle


def test_a_failed_produce_without_acks_ends_the_connection(machine: Machine) -> None:
    effects = machine.send(produce_request(batch(b"a"), topic="missing", acks=0), version=9)
    assert effects == [Close(1, "a Produce without acknowledgement failed")]


def test_l7_a_connection_is_paused_with_too_many_requests_and_resumed_when_they_are_answered(machine: Machine) -> None:
    machine.make_topic()
    effects: list[Effect] = []
    for _ in range(IN_FLIGHT_MAX):
        effects += machine.send(produce_request(batch(b"a")), version=9)
    assert kinds(effects) == [Flush, Pause]
    effects = machine.finish_flush()
    assert kinds(effects) == [Reply, Resume, Flush]


def test_l7_a_client_that_does_not_take_its_answers_is_not_read_from(machine: Machine) -> None:
    machine.make_topic()
    machine.send(produce_request(batch(b"x" * 100_000)), version=9)
    machine.finish_flush()
    effects = machine.send(fetch_request(0), version=11, connection=2)
    assert kinds(effects) == [Reply, Pause]
    assert machine.happen(ConnectionDrained(2)) == [Resume(2)]


def test_l7_a_frame_past_the_limit_is_refused_at_its_size(machine: Machine) -> None:
    assert kinds(machine.happen(FrameAnnounced(1, 2**31 - 1))) == [Close]
    assert kinds(machine.happen(FrameAnnounced(2, -1))) == [Close]
    assert kinds(machine.happen(FrameAnnounced(3, SMALL_FRAME_BYTES + 1))) == [Admit, Timer]


def test_l7_large_frames_wait_until_there_is_room_for_them(machine: Machine) -> None:
    size = machine.config.max_request_bytes
    admitted = ADMITTED_BYTES_MAX // size
    for number in range(admitted):
        assert Admit(number) in machine.happen(FrameAnnounced(number, size))
    assert machine.happen(FrameAnnounced(98, size)) == []
    assert machine.happen(FrameAnnounced(99, size)) == []
    assert Admit(98) in machine.happen(ConnectionClosed(0))
    assert machine.happen(ConnectionClosed(98)) == [Admit(99)]


def test_l7_a_large_frame_that_does_not_come_ends_its_connection(machine: Machine) -> None:
    machine.happen(FrameAnnounced(1, SMALL_FRAME_BYTES + 1))
    machine.clock.advance(BODY_SECONDS)
    assert kinds(machine.happen(TimerFired())) == [Close]


def test_a_large_frame_gives_its_room_back_when_it_is_answered(machine: Machine) -> None:
    machine.make_topic()
    request = produce_request(batch(b"x" * 70_000))
    for _ in range(3):
        machine.happen(FrameAnnounced(1, 70_200))
        machine.send(request, version=9)
        machine.finish_flush()
    size = machine.config.max_request_bytes
    assert Admit(1) in machine.happen(FrameAnnounced(1, size))


@pytest.mark.parametrize(("key", "version"), [(999, 0), (11, 5), (ApiKey.FETCH, 99), (ApiKey.PRODUCE, 0), (-1, -1)])
def test_what_is_not_offered_ends_the_connection(machine: Machine, key: int, version: int) -> None:
    effects = machine.happen(RequestArrived(1, frame(key, version)))
    assert effects == [Close(1, f"api {key} version {version} is not offered")]


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(machine: Machine) -> None:
    effects = machine.happen(RequestArrived(1, frame(ApiKey.API_VERSIONS, 99, b"whatever follows")))
    told = answers(effects, ApiVersionsResponse, version=0)[0]
    assert told.error_code == KafkaError.UNSUPPORTED_VERSION
    assert (18, 0, 4) in [(row.api_key, row.min_version, row.max_version) for row in told.api_keys]


def test_the_table_offers_exactly_what_is_handled(machine: Machine) -> None:
    told = machine.ask(ApiVersionsRequest("client", "1.0"), ApiVersionsResponse, version=4)
    assert {row.api_key for row in told.api_keys} == {0, 1, 2, 3, 8, 9, 10, 18, 19, 20, 22}
    assert not told.supported_features
    assert not told.finalized_features


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("-x", "1"), ("x", "1 0"), ("a\nb", "1")])
def test_a_client_with_an_impossible_name_is_told(machine: Machine, name: str, version: str) -> None:
    told = machine.ask(ApiVersionsRequest(name, version), ApiVersionsResponse, version=3)
    assert told.error_code == KafkaError.INVALID_REQUEST


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\x0b", bytes(frame(3, 9)), bytes(frame(0, 9, b"\xff" * 30))])
def test_l7_a_malformed_frame_ends_its_own_connection_only(machine: Machine, data: bytes) -> None:
    assert kinds(machine.happen(RequestArrived(1, memoryview(data)))) == [Close]
    assert machine.send(MetadataRequest(topics=[]), version=9) == []
    assert kinds(machine.send(MetadataRequest(topics=[]), version=9, connection=2)) == [Reply]


def test_a_connection_that_left_gets_no_answer(machine: Machine) -> None:
    machine.make_topic()
    machine.send(produce_request(batch(b"a")), version=9)
    machine.send(fetch_request(5), version=11, connection=2)
    machine.happen(ConnectionClosed(1))
    machine.happen(ConnectionClosed(2))
    assert machine.finish_flush() == []


def test_every_version_that_is_offered_has_an_answer(machine: Machine) -> None:
    for api, known in VERSIONS.items():
        for version in range(known.first, known.last + 1):
            request = request_class(api)()
            if isinstance(request, ApiVersionsRequest):
                request = ApiVersionsRequest("client", "1")
            if isinstance(request, InitProducerIdRequest):
                request = InitProducerIdRequest(None)
            if isinstance(request, ProduceRequest):
                request = ProduceRequest(acks=1)
            connection = 1000 * api + version
            told = machine.ask(request, response_class(api), version=version, connection=connection)
            assert type(told) is response_class(api)


def test_an_event_of_nobody_changes_nothing(machine: Machine) -> None:
    assert machine.happen(FlushCompleted()) == []
    assert machine.happen(TimerFired()) == []
    assert machine.happen(ConnectionDrained(77)) == []
    assert machine.happen(ConnectionClosed(77)) == []


def test_l7_the_room_of_a_large_frame_is_given_back_once_though_its_client_leaves_first(machine: Machine) -> None:
    machine.make_topic()
    size = machine.config.max_request_bytes
    admitted = ADMITTED_BYTES_MAX // size
    for _ in range(3):
        machine.happen(FrameAnnounced(1, 70_200))
        machine.send(produce_request(batch(b"x" * 70_000)), version=9)
        machine.happen(ConnectionClosed(1))
        machine.finish_flush()
    for number in range(admitted):
        assert Admit(number) in machine.happen(FrameAnnounced(number, size))
    rest = ADMITTED_BYTES_MAX - admitted * size
    assert machine.happen(FrameAnnounced(98, rest + 1)) == []
