"""Bytes in pieces of any size become the same frames."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.events import SMALL_FRAME_BYTES, Event, FrameAnnounced, RequestArrived
from penstock.broker.intake import BODY_BYTES_FIRST, Intake


class Listener:
    """Admits every large frame, at once or when it is told to."""

    def __init__(self, *, admits_at_once: bool = True) -> None:
        self.frames: list[bytes] = []
        self.announced: list[int] = []
        self._admits_at_once = admits_at_once
        self.intake = Intake(1, happened=self._happened, scratch=memoryview(bytearray(256 * 1024)))

    def _happened(self, event: Event) -> None:
        if isinstance(event, RequestArrived):
            self.frames.append(bytes(event.frame))
        if isinstance(event, FrameAnnounced):
            self.announced.append(event.size)
            if self._admits_at_once:
                self.intake.admit()

    def feed(self, data: bytes) -> None:
        """As a socket does: no more than there is room for, at a time."""
        while data:
            room = self.intake.room()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self.intake.received(count)
            data = data[count:]


def stream(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


SMALL = st.lists(st.sampled_from([0, 1, 3, 100, 700]), max_size=6)
LARGE = st.lists(st.sampled_from([0, 5, SMALL_FRAME_BYTES, SMALL_FRAME_BYTES + 1, 300_000]), max_size=6)


@given(SMALL, st.lists(st.integers(1, 300), min_size=1, max_size=5), st.integers(2, 4))
def test_small_frames_do_not_depend_on_how_the_bytes_come(sizes: list[int], pieces: list[int], every: int) -> None:
    assert fed_in_pieces(sizes, pieces, every).frames == made(sizes)


@given(LARGE, st.lists(st.integers(20_000, 400_000), min_size=1, max_size=5), st.integers(2, 4))
def test_large_frames_do_not_depend_on_how_the_bytes_come(sizes: list[int], pieces: list[int], every: int) -> None:
    listener = fed_in_pieces(sizes, pieces, every)
    assert listener.frames == made(sizes)
    assert listener.announced == [size for size in sizes if size > SMALL_FRAME_BYTES]


def made(sizes: list[int]) -> list[bytes]:
    return [bytes([number]) * size for number, size in enumerate(sizes)]


def fed_in_pieces(sizes: list[int], pieces: list[int], every: int) -> Listener:
    """Feed frames of these sizes in these pieces, with a pause after every so many."""
    listener, data, turn = Listener(), stream(made(sizes)), 0
    while data:
        count = pieces[turn % len(pieces)]
        if turn % every == 0:
            listener.intake.pause()
            listener.feed(data[:count])
            listener.intake.resume()
        else:
            listener.feed(data[:count])
        data, turn = data[count:], turn + 1
    return listener


def test_l7_nothing_is_read_for_a_large_frame_before_it_is_admitted() -> None:
    listener = Listener(admits_at_once=False)
    frame = b"x" * 100_000
    listener.feed(stream([frame])[:50_000])
    assert listener.announced == [100_000]
    assert not listener.intake.wants_bytes
    listener.intake.admit()
    listener.feed(stream([frame])[50_000:])
    assert listener.frames == [frame]


def test_l7_a_claim_of_two_gigabytes_takes_no_memory() -> None:
    listener = Listener()
    listener.feed((2**31 - 1).to_bytes(4, "big"))
    assert len(listener.intake.room()) == BODY_BYTES_FIRST


def test_a_paused_connection_hands_over_nothing_until_it_is_resumed() -> None:
    listener = Listener()
    listener.intake.pause()
    assert not listener.intake.wants_bytes
    listener.feed(stream([b"a", b"b"]))
    assert listener.frames == []
    listener.intake.resume()
    assert listener.frames == [b"a", b"b"]


def test_a_pause_between_two_frames_keeps_the_second() -> None:
    listener = Listener()
    listener.feed(stream([b"a"]) + stream([b"b"])[:3])
    listener.intake.pause()
    listener.feed(stream([b"b"])[3:])
    assert listener.frames == [b"a"]
    listener.intake.resume()
    assert listener.frames == [b"a", b"b"]
