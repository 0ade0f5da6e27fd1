"""Requests with changed, cut and added bytes: the core answers or closes, and never breaks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.broker.events import ConnectionClosed, RequestArrived
from penstock.protocol.apis import VERSIONS, ApiKey
from penstock.protocol.codec import request_class
from penstock.protocol.frames import request_frame
from penstock.protocol.messages import Request
from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.machine import Machine, batch, fetch_request, produce_request

FULL: list[Request] = [
    produce_request(batch(b"a", b"b", producer_id=3, producer_epoch=0, base_sequence=0)),
    fetch_request(0, max_wait_ms=0),
    MetadataRequest([MetadataRequestTopic(name="t"), MetadataRequestTopic(name="made")]),
    CreateTopicsRequest([CreateTopicsRequestTopic("n", 2, 1)]),
]


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A real request with some bytes changed, cut off or added."""
    request = draw(st.sampled_from([*FULL, *(request_class(api)() for api in VERSIONS)]))
    known = VERSIONS[ApiKey(request.API)]
    version = draw(st.integers(known.first, known.last))
    frame = bytearray(b"".join(request_frame(request, version=version, correlation_id=1, client_id="x"))[4:])
    for _ in range(draw(st.integers(0, 4))):
        frame[draw(st.integers(0, len(frame) - 1))] = draw(st.integers(0, 255))
    end = draw(st.integers(1, len(frame))) if draw(st.booleans()) else len(frame)
    return bytes(frame[:end]) + draw(st.binary(max_size=4))


@pytest.fixture(scope="module")
def one_machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    folder: Path = tmp_path_factory.mktemp("fuzzed")
    made = Machine(folder)
    made.make_topic()
    return made


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(frames(), min_size=1, max_size=5))
def test_l7_no_frame_breaks_the_core(one_machine: Machine, sent: list[bytes]) -> None:
    for frame in sent:
        one_machine.happen(RequestArrived(7, memoryview(frame)))
    while one_machine.flush:
        one_machine.finish_flush()
    one_machine.happen(ConnectionClosed(7))
    assert one_machine.node.topics.named("t") is not None or ApiKey.DELETE_TOPICS in {f[1] for f in sent if len(f) > 1}
