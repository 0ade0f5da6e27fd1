"""What is shown: a screen of 80 by 24, and the same as lines where there is no terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from penstock.core.clock import ManualClock
from penstock.demo.drill import Outage
from penstock.demo.freshness import Spread
from penstock.demo.screen import LiveScreen, PlainLines, Shown, Stage, balance_text, outage_line, screen, traffic_line

OUTCOMES = {
    "read": 24_460,
    "applied": 23_610,
    "duplicate": 700,
    "conflict": 60,
    "rejected": 90,
    "late": 0,
    "pending": 0,
}
ACCOUNTS = [
    {"account": f"account-{n:02d}", "requests": 1_000 * n, "quantity": f"{2_500 * n}.123456"} for n in range(1, 21)
]
OUTAGES = [
    Outage("broker", 113.0, killed=113.5, started=115.5, fresh=117.0),
    Outage("pipeline", 122.0, killed=122.5, started=124.5),
]


def shown(
    *, outcomes: dict[str, int] | None = None, recent: Spread | None = None, outages: Sequence[Outage] = ()
) -> Shown:
    return Shown(
        elapsed_s=25.0,
        seconds=45.0,
        sent=25_000,
        waiting=1_234,
        sent_per_s=1_000.4,
        applied_per_s=None if outcomes is None else 993.0,
        behind_s=2.5,
        recent=recent,
        outcomes=outcomes,
        accounts=ACCOUNTS if outcomes else [],
        outages=outages,
        now=125.0,
        begun=100.0,
    )


def drawn(state: Shown | None, stages: Sequence[Stage] = ()) -> list[str]:
    console = Console(file=io.StringIO(), width=80, height=24)
    console.print(screen(state, stages=stages, width=80))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_fullest_screen_fits_80_columns_and_24_rows() -> None:
    stages = [
        Stage("waiting until the log has everything", 1.0, is_done=True),
        Stage("proving the views from the log", 3.0),
    ]
    lines = drawn(shown(outcomes=OUTCOMES, recent=Spread(141.2, 388.9, 2_000.0, 100), outages=OUTAGES), stages)
    assert len(lines) <= 24
    assert max(len(line) for line in lines) <= 80
    text = "\n".join(lines)
    for part in (
        "0:25 of 0:45",
        "1,000/s",
        "993/s",
        "1,234 waiting",
        "p50 141 ms",
        "p99 389 ms",
        "2.5 s behind",
        "read 24,460  balanced",
        "= applied 23,610 + duplicate 700 + conflict 60",
        "+ rejected 90 + late 0 + pending 0",
        "account-20",
        "50000.123456",
        "broker: killed with -9 at 0:13, the view fresh again after 3.5 s",
        "pipeline: killed with -9 at 0:22, started again, catching up for 0.5 s",
        "proving the views from the log ... 3 s",
    ):
        assert part in text, part


def test_what_is_not_known_yet_is_a_dash_and_not_a_zero() -> None:
    text = "\n".join(drawn(shown()))
    assert "waiting for the first batch" in text
    assert "p50 -" in text
    assert "0 applied" not in text
    assert "0/s" not in text.replace("1,000/s", "")


def test_a_balance_that_does_not_add_up_says_so() -> None:
    assert "balanced" in balance_text(OUTCOMES).plain
    assert "NOT BALANCED" in balance_text({**OUTCOMES, "read": 1}).plain


@pytest.mark.parametrize(
    ("outage", "line"),
    [
        (Outage("broker", 116.0), "broker: to be killed with -9 at 0:16"),
        (Outage("broker", 113.0), "broker: to be killed with -9 once the view is fresh"),
        (Outage("broker", 113.0, killed=113.5), "broker: killed with -9 at 0:13, down for 1.5 s"),
        (
            Outage("broker", 113.0, killed=113.5, started=114.5),
            "broker: killed with -9 at 0:13, started again, catching up for 0.5 s",
        ),
    ],
)
def test_an_outage_is_told_in_words(outage: Outage, line: str) -> None:
    assert outage_line(outage, now=115.0, begun=100.0) == line


def test_one_line_holds_the_state_of_the_traffic() -> None:
    line = traffic_line(shown(outcomes=OUTCOMES, recent=Spread(141.2, 388.9, 2_000.0, 100), outages=OUTAGES[:1]))
    assert line == (
        "0:25; sent 25,000 (1,000/s); applied 23,610 (993/s); fresh after p50 141 ms, p99 389 ms; 2.5 s behind"
    )


def test_lines_come_when_a_stage_begins_and_ends_and_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    with PlainLines(clock) as lines:
        for seconds in (0.0, 1.0, 4.9, 5.0, 6.0):
            clock.advance(seconds - clock.monotonic())
            lines.stage(Stage("starting Spark", seconds))
        lines.stage(Stage("starting Spark", 6.5, is_done=True))
        clock.advance(5.0)
        for _ in range(3):
            lines.traffic(shown())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "starting Spark ... 0 s",
        "starting Spark ... 5 s",
        "starting Spark: done in 6.5 s",
        "0:25; sent 25,000 (1,000/s); 2.5 s behind",
    ]


def test_the_screen_forgets_the_start_once_numbers_move() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    with LiveScreen(console) as live:
        live.stage(Stage("starting the log", 0.3, is_done=True))
        assert "starting the log" in "\n".join(drawn(*live.state))
        live.traffic(shown())
        assert "starting the log" not in "\n".join(drawn(*live.state))
        live.stage(Stage("proving the views from the log", 1.0))
        text = "\n".join(drawn(*live.state))
    assert "proving the views from the log ... 1 s" in text
    assert "25,000 sent" in text
