"""The machine around a core, played by hand: a test sends requests, and decides when a flush or a read is done."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from penstock.broker.config import BrokerConfig
from penstock.broker.core import Core
from penstock.broker.events import (
    Effect,
    Event,
    Flush,
    FlushCompleted,
    Moment,
    Reply,
    RequestArrived,
    Work,
    WorkCompleted,
)
from penstock.broker.opening import open_node
from penstock.core.clock import ManualClock
from penstock.core.files import RealFiles
from penstock.core.units import TimestampMs
from penstock.protocol.batches import Record, build_batch
from penstock.protocol.codec import decode
from penstock.protocol.frames import decode_response_header, request_frame
from penstock.protocol.messages import Request, Response
from penstock.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    TopicConfig,
)
from penstock.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)

AnyResponse = TypeVar("AnyResponse", bound=Response)


class Machine:
    def __init__(self, folder: Path, **config: int | bool) -> None:
        self.clock = ManualClock()
        self.config = BrokerConfig(folder, **config)  # type: ignore[arg-type]  # a test names what it changes
        self.node = open_node(self.config, files=RealFiles(), now_ms=self.clock.now_ms())
        self.core = Core(self.node)
        self.flush: Flush | None = None
        self.correlation_id = 0

    def happen(self, event: Event) -> list[Effect]:
        """One event; a Flush among the effects is kept for `finish_flush`."""
        effects = self.core.handle(event, now=Moment(self.clock.now_ms(), self.clock.monotonic()))
        for effect in effects:
            if isinstance(effect, Flush):
                assert self.flush is None, "one round at a time"
                self.flush = effect
        return effects

    def send(self, request: Request, *, version: int, connection: int = 1) -> list[Effect]:
        self.correlation_id += 1
        frame = request_frame(request, version=version, correlation_id=self.correlation_id, client_id="test")
        return self.happen(RequestArrived(connection, memoryview(b"".join(frame))[4:]))

    def finish_flush(self) -> list[Effect]:
        """The running round reaches the disk."""
        assert self.flush is not None
        flush, self.flush = self.flush, None
        flush.run()
        return self.happen(FlushCompleted())

    def finish_work(self, work: Work) -> list[Effect]:
        return self.happen(WorkCompleted(work.ticket, work.run()))

    def ask(self, request: Request, kind: type[AnyResponse], *, version: int, connection: int = 1) -> AnyResponse:
        """Send a request and play along until its answer is there; a round that it began is finished too."""
        may_flush = self.flush is None
        effects = self.send(request, version=version, connection=connection)
        while not (mine := [e for e in effects if isinstance(e, Reply) and e.connection == connection]):
            work = next((effect for effect in effects if isinstance(effect, Work)), None)
            effects = self.finish_work(work) if work else self.finish_flush()
        while may_flush and self.flush:
            self.finish_flush()
        return answer(mine[0], kind, version=version)

    def make_topic(self, name: str = "t", *, partitions: int = 1, **configs: str) -> CreateTopicsResponse:
        settings = [TopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        topic = CreateTopicsRequestTopic(name, partitions, 1, configs=settings)
        return self.ask(CreateTopicsRequest([topic]), CreateTopicsResponse, version=7)

    def produce(self, request: ProduceRequest, *, version: int = 9) -> ProduceResponsePartition:
        return self.ask(request, ProduceResponse, version=version).responses[0].partition_responses[0]

    def reopen(self) -> Machine:
        """Stop clean and start again on the same folder."""
        self.node.close()
        return Machine(self.config.data)


def answers(effects: list[Effect], kind: type[AnyResponse], *, version: int) -> list[AnyResponse]:
    return [answer(effect, kind, version=version) for effect in effects if isinstance(effect, Reply)]


def answer(reply: Reply, kind: type[AnyResponse], *, version: int) -> AnyResponse:
    frame = b"".join(reply.buffers)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    _, position = decode_response_header(kind.API, version, frame[4:])
    return decode(kind, version=version, buffer=frame[4 + position :])


def kinds(effects: list[Effect]) -> list[type[Effect]]:
    return [type(effect) for effect in effects]


def batch(*values: bytes, at_ms: int = 1_700_000_000_000, **producer: int) -> bytes:
    return build_batch([Record(None, value, TimestampMs(at_ms)) for value in values], **producer)  # type: ignore[arg-type]


def produce_request(records: bytes, *, topic: str = "t", partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = ProduceRequestTopic(topic, partition_data=[ProduceRequestPartition(partition, records)])
    return ProduceRequest(None, acks, 1000, [data])


def fetch_request(
    offset: int, *, topic: str = "t", partition: int = 0, max_wait_ms: int = 500, min_bytes: int = 1
) -> FetchRequest:
    wanted = FetchRequestPartition(partition, fetch_offset=offset, partition_max_bytes=1024**2)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=[FetchRequestTopic(topic, partitions=[wanted])]
    )
