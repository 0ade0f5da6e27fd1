"""The client against a broker of ours, and against brokers that lie, refuse, are old, or hang up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.core.clock import ManualClock, RealClock
from penstock.core.errors import CallerError, CorruptError, DataLossError, FencedError, PenstockError, RetryError
from penstock.core.units import Offset, PartitionId, TimestampMs
from penstock.core.values import OffsetRange
from penstock.protocol.apis import VERSIONS, ApiKey, KafkaError
from penstock.protocol.batches import Record, build_batch, check_batch, patch_offsets
from penstock.protocol.client import Client
from penstock.protocol.cluster import parse_bootstrap
from penstock.protocol.codec import decode_request
from penstock.protocol.frames import FrameReader, decode_request_header, response_frame
from penstock.protocol.messages import Request, Response
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse, FetchResponsePartition, FetchResponseTopic
from penstock.protocol.messages.init_producer_id import InitProducerIdResponse
from penstock.protocol.messages.list_offsets import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.messages.produce import ProduceResponse, ProduceResponsePartition, ProduceResponseTopic
from penstock.testing.broker import running_broker

P0, P1 = PartitionId(0), PartitionId(1)
TOPIC_ID = b"t" * 16
Script = Callable[[Request, int], Response | None]


def batch_at(offset: int, *, count: int = 3, producer_id: int = -1) -> bytes:
    records = [Record(b"k", b"value %d" % n, TimestampMs(1_000 + n)) for n in range(count)]
    batch = bytearray(
        build_batch(
            records, producer_id=producer_id, producer_epoch=min(producer_id, 0), base_sequence=min(producer_id, 0)
        )
    )
    patch_offsets(batch, Offset(offset), 0)  # type: ignore[arg-type]
    return bytes(batch)


class ScriptedBroker:
    """Answers every request as a function says; None hangs up. It speaks the versions it is given."""

    def __init__(self, script: Script, *, versions: Mapping[ApiKey, tuple[int, int]]) -> None:
        self.requests: list[tuple[Request, int]] = []
        self._script = script
        self._versions = versions
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def of(self, api: ApiKey) -> list[tuple[Request, int]]:
        return [(request, version) for request, version in self.requests if api == request.API]

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(ConnectionError):
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        reader = FrameReader()
        while count := connection.recv_into(reader.room()):
            for frame in reader.received(count):
                answer = self._answer(frame)
                if answer is None:
                    return
                connection.sendall(answer)

    def _answer(self, frame: memoryview) -> bytes | None:
        header, position = decode_request_header(frame)
        first, last = self._versions[ApiKey(header.key)]
        if not first <= header.version <= last:
            refusal = ApiVersionsResponse(
                KafkaError.UNSUPPORTED_VERSION, [ApiVersion(ApiKey.API_VERSIONS, first, last)]
            )
            return b"".join(response_frame(refusal, version=0, correlation_id=header.correlation_id))
        request = decode_request(header.key, header.version, frame[position:])
        self.requests.append((request, header.version))
        response: Response | None = ApiVersionsResponse(
            api_keys=[ApiVersion(key, *span) for key, span in self._versions.items()]
        )
        if header.key != ApiKey.API_VERSIONS:
            response = self._script(request, self.port)
        if response is None:
            return None
        return b"".join(response_frame(response, version=header.version, correlation_id=header.correlation_id))


ALL_VERSIONS = {api: (versions.first, versions.last) for api, versions in VERSIONS.items()}


@contextmanager
def scripted(
    script: Script, *, versions: Mapping[ApiKey, tuple[int, int]] | None = None
) -> Iterator[tuple[ScriptedBroker, Client]]:
    broker = ScriptedBroker(script, versions=ALL_VERSIONS | dict(versions or {}))
    with Client(f"127.0.0.1:{broker.port}", clock=ManualClock(), timeout_s=5) as client:
        try:
            yield broker, client
        finally:
            client.close()
            broker.stop()


def cluster(port: int, *, topic_id: bytes = TOPIC_ID) -> MetadataResponse:
    partitions = [MetadataResponsePartition(partition_index=n, leader_id=1) for n in range(2)]
    topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=partitions)
    return MetadataResponse(brokers=[MetadataResponseBroker(1, "127.0.0.1", port)], controller_id=1, topics=[topic])


def answering(answers: list[Response | None]) -> Script:
    """Metadata whenever it is asked for; everything else from the list, the last of it again and again."""

    def script(request: Request, port: int) -> Response | None:
        if request.API == ApiKey.METADATA:
            return cluster(port)
        return answers.pop(0) if len(answers) > 1 else answers[0]

    return script


def offsets(offset: int, error: KafkaError = KafkaError.NONE) -> ListOffsetsResponse:
    row = ListOffsetsResponsePartition(0, error, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsResponseTopic("t", [row])])


def fetched(
    records: bytes = b"", *, error: KafkaError = KafkaError.NONE, high_watermark: int = 100, topic: str = "t"
) -> FetchResponse:
    row = FetchResponsePartition(0, error, high_watermark, log_start_offset=0, records=records)
    return FetchResponse(responses=[FetchResponseTopic(topic, TOPIC_ID, [row])])


def produced(offset: int, error: KafkaError = KafkaError.NONE) -> ProduceResponse:
    row = ProduceResponsePartition(0, error, offset)
    return ProduceResponse([ProduceResponseTopic("t", TOPIC_ID, [row])])


def test_the_whole_way_with_a_broker_of_ours(tmp_path: Path) -> None:
    clock = RealClock()
    now = clock.now_ms()
    batch = build_batch([Record(b"k", b"%d" % n, TimestampMs(now + n)) for n in range(3)])
    with running_broker(tmp_path / "data") as address, Client(address, clock=clock) as client:
        client.create_topic("t", 2, {"segment.bytes": "1048576"})
        assert client.partitions("t") == [0, 1]
        assert client.topics()["t"].topic_id == client.topic_id("t")
        assert [client.produce("t", P0, batch), client.produce("t", P0, batch)] == [0, 3]
        assert client.list_offsets("t", {P0: "latest", P1: "latest"}) == {P0: 6, P1: 0}
        assert client.list_offsets("t", {P0: now + 1}) == {P0: 1}
        assert client.list_offsets("t", {P0: now + 9}) == {P0: 6}
        wanted = OffsetRange("t", P0, Offset(1), Offset(5))
        assert [(r.offset, r.value) for r in client.read_records(wanted)] == [
            (1, b"1"),
            (2, b"2"),
            (3, b"0"),
            (4, b"1"),
        ]
        assert sum(len(batches) for batches in client.read_range(wanted)) == 2 * len(batch)
        found = client.fetch("t", {P0: Offset(4), P1: Offset(0)})
        assert (check_batch(found[P0].batches).base_offset, found[P0].high_watermark, len(found[P1].batches)) == (
            3,
            6,
            0,
        )
        client.wait_for_data({"t": {P0: Offset(5)}}, max_wait_ms=20_000)
        with pytest.raises(DataLossError, match="offset 99 of t-0 is not in the log"):
            client.fetch("t", {P0: Offset(99)})
        with pytest.raises(CallerError, match="topic t exists already"):
            client.create_topic("t", 1)
        client.delete_topic("t")
        with pytest.raises(CallerError, match="there is no topic t "):
            client.partitions("t")
        assert client.init_producer_id()[1] == 0


def test_l1_waiting_at_the_tail_ends_when_a_record_is_durable(tmp_path: Path) -> None:
    clock = RealClock()
    with running_broker(tmp_path / "data") as address, Client(address, clock=clock) as waiting:
        waiting.create_topic("t", 1)
        began = clock.monotonic()
        with Client(address, clock=clock) as client:
            batch = build_batch([Record(None, b"v", clock.now_ms())])
            timer = threading.Timer(0.1, client.produce, ("t", P0, batch))
            timer.start()
            waiting.wait_for_data({"t": {P0: Offset(0)}}, max_wait_ms=20_000)
            timer.join()
        assert clock.monotonic() - began < 15
        assert waiting.list_offsets("t", {P0: "latest"}) == {P0: 1}


def test_three_brokers_of_another_make_are_read_at_their_leaders() -> None:
    """librdkafka carries a small cluster for tests: the only brokers at hand that share no code with ours."""
    values = [b"value %d" % n for n in range(400)]
    producer = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 3, "compression.type": "lz4"})
    brokers = producer.list_topics(timeout=10).brokers.values()
    for n, value in enumerate(values):
        producer.produce("t", value, partition=n % 4)
    producer.flush()
    with Client(",".join(f"{b.host}:{b.port}" for b in brokers), clock=RealClock()) as client:
        ends = client.list_offsets("t", dict.fromkeys(client.partitions("t"), "latest"))
        assert ends == dict.fromkeys(range(4), 100)
        for partition, end in ends.items():
            found = [r.value for r in client.read_records(OffsetRange("t", partition, Offset(0), end))]
            assert found == values[partition::4]
        client.wait_for_data({"t": ends}, max_wait_ms=150)
        assert client.produce("t", P1, batch_at(0, producer_id=client.init_producer_id()[0])) == 100
        client.wait_for_data({"t": ends}, max_wait_ms=20_000)


def test_an_unreachable_broker_is_named_with_the_command_that_starts_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    clock = ManualClock()
    with pytest.raises(RetryError, match=f"penstock broker --listen 127.0.0.1:{port}") as caught:
        Client(f"127.0.0.1:{port}", clock=clock, patience_s=2.0).topics()
    assert caught.value.code == "broker-unreachable"
    assert 1.0 < clock.monotonic() <= 2.0


def test_the_next_broker_of_the_list_is_asked_where_the_first_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        away = listener.getsockname()[1]
    with (
        scripted(answering([offsets(7)])) as (broker, _),
        Client(f"127.0.0.1:{away},127.0.0.1:{broker.port}", clock=ManualClock()) as client,
    ):
        assert client.list_offsets("t", {P0: "latest"}) == {P0: 7}


def test_a_connection_that_broke_is_made_anew_once() -> None:
    with scripted(answering([offsets(1), None, offsets(2)])) as (broker, client):
        assert client.list_offsets("t", {P0: "latest"}) == {P0: 1}
        assert client.list_offsets("t", {P0: "latest"}) == {P0: 2}
        assert len(broker.of(ApiKey.API_VERSIONS)) == 2


def test_a_broker_that_hangs_up_every_time_is_unreachable() -> None:
    with scripted(answering([None])) as (_, client), pytest.raises(RetryError, match="broker-unreachable"):
        client.list_offsets("t", {P0: "latest"})


def test_versions_are_asked_for_again_where_the_broker_does_not_know_ours() -> None:
    with scripted(answering([offsets(7)]), versions={ApiKey.API_VERSIONS: (0, 2)}) as (broker, client):
        assert client.list_offsets("t", {P0: "latest"}) == {P0: 7}
        assert [version for _, version in broker.of(ApiKey.API_VERSIONS)] == [0]


def test_a_broker_without_topic_ids_is_asked_by_name() -> None:
    def script(request: Request, port: int) -> Response:
        return cluster(port) if request.API == ApiKey.METADATA else fetched(batch_at(0))

    with scripted(script, versions={ApiKey.METADATA: (0, 9)}) as (broker, client):
        client.fetch("t", {P0: Offset(0)})
        ((request, version),) = broker.of(ApiKey.FETCH)
        assert isinstance(request, FetchRequest)
        assert (version, request.topics[0].topic) == (12, "t")


def test_versions_that_do_not_meet_are_named() -> None:
    with (
        scripted(answering([]), versions={ApiKey.METADATA: (14, 20)}) as (_, client),
        pytest.raises(CallerError, match="versions 14 to 20 of METADATA"),
    ):
        client.topics()


def test_a_partition_that_moved_is_looked_up_and_asked_again() -> None:
    answers = [offsets(-1, KafkaError.NOT_LEADER_OR_FOLLOWER), offsets(5)]
    with scripted(answering([*answers])) as (broker, client):
        assert client.list_offsets("t", {P0: "latest"}) == {P0: 5}
        assert len(broker.of(ApiKey.METADATA)) == 2


def test_a_topic_that_came_back_under_another_id_is_looked_up_again() -> None:
    with scripted(answering([fetched(batch_at(0)), fetched(error=KafkaError.UNKNOWN_TOPIC_ID), fetched()])) as (
        _,
        client,
    ):
        for _ in range(2):
            client.fetch("t", {P0: Offset(0)})


def test_an_answer_that_never_gets_better_ends_with_its_name() -> None:
    with (
        scripted(answering([offsets(-1, KafkaError.LEADER_NOT_AVAILABLE)])) as (_, client),
        pytest.raises(RetryError, match="LEADER_NOT_AVAILABLE"),
    ):
        client.list_offsets("t", {P0: "latest"})


def test_l3_a_batch_without_a_producer_id_is_never_sent_twice() -> None:
    with scripted(answering([None, produced(8)])) as (broker, client):
        with pytest.raises(RetryError, match="may or may not have been stored"):
            client.produce("t", P0, batch_at(0))
        assert len(broker.of(ApiKey.PRODUCE)) == 1


def test_l3_a_numbered_batch_is_sent_again_because_the_broker_knows_it() -> None:
    with scripted(answering([None, produced(8)])) as (broker, client):
        assert client.produce("t", P0, batch_at(0, producer_id=5)) == 8
        assert len(broker.of(ApiKey.PRODUCE)) == 2


def test_a_replaced_producer_is_told_to_stop() -> None:
    with (
        scripted(answering([produced(-1, KafkaError.INVALID_PRODUCER_EPOCH)])) as (_, client),
        pytest.raises(FencedError, match="replaced by a newer one"),
    ):
        client.produce("t", P0, batch_at(0, producer_id=5))


def test_a_batch_that_the_broker_refuses_says_why() -> None:
    with (
        scripted(answering([produced(-1, KafkaError.MESSAGE_TOO_LARGE)])) as (_, client),
        pytest.raises(CallerError, match="refused t-0: MESSAGE_TOO_LARGE"),
    ):
        client.produce("t", P0, batch_at(0))


def test_a_request_without_an_answer_cannot_be_made() -> None:
    with pytest.raises(CallerError, match="acks 0"):
        Client("127.0.0.1:1", clock=ManualClock()).produce("t", P0, batch_at(0), acks=0)


def test_l5_a_damaged_batch_of_a_range_is_refused() -> None:
    damaged = bytearray(batch_at(0))
    damaged[-1] ^= 1
    with scripted(answering([fetched(bytes(damaged))])) as (_, client), pytest.raises(CorruptError, match="CRC"):
        list(client.read_range(OffsetRange("t", P0, Offset(0), Offset(3))))


def test_a_range_takes_whole_batches_that_hold_its_offsets_and_no_others() -> None:
    three = batch_at(0) + batch_at(3) + batch_at(6)
    with scripted(answering([fetched(three)])) as (_, client):
        found = list(client.read_range(OffsetRange("t", P0, Offset(4), Offset(6))))
    assert [bytes(batches) for batches in found] == [batch_at(3)]


def test_a_range_whose_last_offsets_were_compacted_away_ends_at_the_next_batch() -> None:
    with scripted(answering([fetched(batch_at(0) + batch_at(50))])) as (_, client):
        found = list(client.read_range(OffsetRange("t", P0, Offset(0), Offset(40))))
    assert [bytes(batches) for batches in found] == [batch_at(0)]


def test_l5_records_that_were_lost_from_the_end_of_a_range_are_missed() -> None:
    with (
        scripted(answering([fetched(batch_at(0), high_watermark=3), fetched(high_watermark=3)])) as (_, client),
        pytest.raises(DataLossError, match=r"t-0\[0, 9\) are gone: the log ends at 3"),
    ):
        list(client.read_range(OffsetRange("t", P0, Offset(0), Offset(9))))


def test_a_broker_that_keeps_records_back_is_a_reason_to_wait() -> None:
    with (
        scripted(answering([fetched(high_watermark=50)])) as (_, client),
        pytest.raises(RetryError, match="gives no records"),
    ):
        list(client.read_range(OffsetRange("t", P0, Offset(0), Offset(9))))


def test_l5_an_offset_before_the_start_of_the_log_is_data_loss() -> None:
    with (
        scripted(answering([fetched(error=KafkaError.OFFSET_OUT_OF_RANGE)])) as (_, client),
        pytest.raises(DataLossError, match="offset 0 of t-0"),
    ):
        list(client.read_records(OffsetRange("t", P0, Offset(0), Offset(9))))


def test_waiting_ends_at_its_time_where_nothing_comes() -> None:
    clock = ManualClock()

    def script(request: Request, port: int) -> Response:
        if isinstance(request, FetchRequest):
            clock.advance(request.max_wait_ms / 1_000)
            return fetched()
        return cluster(port)

    broker = ScriptedBroker(script, versions=ALL_VERSIONS)
    with Client(f"127.0.0.1:{broker.port}", clock=clock) as client:
        client.wait_for_data({"t": {P0: Offset(100)}}, max_wait_ms=5_000)
        client.wait_for_data({}, max_wait_ms=5_000)
    broker.stop()
    assert clock.monotonic() == pytest.approx(5.0)
    assert len(broker.of(ApiKey.FETCH)) == 1


def test_an_answer_to_another_request_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_wrongly() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(b"".join(response_frame(ApiVersionsResponse(), version=4, correlation_id=99)))

        thread = threading.Thread(target=answer_wrongly)
        thread.start()
        with pytest.raises(CorruptError, match="it answers another request"):
            Client(f"127.0.0.1:{listener.getsockname()[1]}", clock=ManualClock()).topics()
        thread.join()


def test_a_partition_that_the_topic_has_not_is_refused_before_it_is_asked_for() -> None:
    with (
        scripted(answering([offsets(1)])) as (_, client),
        pytest.raises(CallerError, match="no partition 7, it has 2"),
    ):
        client.list_offsets("t", {PartitionId(7): "latest"})


def test_a_producer_id_is_asked_for_until_there_is_one() -> None:
    busy = InitProducerIdResponse(error_code=KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    with scripted(answering([busy, InitProducerIdResponse(producer_id=9)])) as (_, client):
        assert client.init_producer_id() == (9, 0)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [("a:1", ["a:1"]), ("a:1,b", ["a:1", "b:9092"]), ("[::1]:5, [fe80::1]", ["[::1]:5", "[fe80::1]:9092"])],
)
def test_bootstrap_lists_are_read(text: str, addresses: list[str]) -> None:
    assert [str(address) for address in parse_bootstrap(text)] == addresses


@pytest.mark.parametrize("text", ["", "a:", ":1", "a:b", "a:0", "a:65536", "a:1,", "a:-1"])
def test_a_bootstrap_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PenstockError, match="bootstrap-unreadable"):
        parse_bootstrap(text)
