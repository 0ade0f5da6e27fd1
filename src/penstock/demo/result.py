"""How a demo ended: what is printed, and whether balance, truth and proof hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.demo.drill import Outage
from penstock.demo.freshness import RESOLUTION_MS, Spread
from penstock.demo.proof import Proof
from penstock.demo.screen import milliseconds, outage_line, per_second

SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Rates:
    """Records a second: asked for, sent, and applied; `seconds` are those from the first send to the last commit."""

    asked: int
    sent: float
    applied: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that the end of a demo tells."""

    outcomes: Mapping[str, int]
    truth_differences: Sequence[str]
    strangers: int
    proof: Proof
    freshness: Spread | None
    steady: Spread | None
    rates: Rates
    bill: Mapping[str, object]
    outages: Sequence[Outage]
    begun: float
    home: Path

    @property
    def balance(self) -> bool:
        return self.outcomes["read"] == sum(count for name, count in self.outcomes.items() if name != "read")

    @property
    def holds(self) -> bool:
        return self.balance and not self.truth_differences and self.proof.differences == 0

    def document(self) -> dict[str, object]:
        return {
            "holds": self.holds,
            "outcomes": dict(self.outcomes),
            "balance": self.balance,
            "differences": self.proof.differences,
            "found": list(self.proof.found),
            "truth": {"differences": list(self.truth_differences), "strangers": self.strangers},
            "bill": dict(self.bill),
            "freshness_ms": {
                **_ages(self.freshness),
                "resolution": RESOLUTION_MS,
                "steady": _ages(self.steady),
            },
            "rates": {
                "asked": self.rates.asked,
                "sent": round(self.rates.sent, 1),
                "applied": round(self.rates.applied, 1),
                "seconds": round(self.rates.seconds, 1),
            },
            "drill": [self._outage(outage) for outage in self.outages],
            "home": str(self.home),
        }

    def _outage(self, outage: Outage) -> dict[str, object]:
        if outage.killed is None or outage.fresh is None:
            return {"killed": None, "part": outage.part}
        return {
            "killed": outage.part,
            "at_s": round(outage.killed - self.begun, 1),
            "fresh_again_after_s": round(outage.fresh - outage.killed, 1),
        }

    def lines(self) -> list[str]:
        """The same for people."""
        sections = {
            "bill": ["{account}: {requests:,} requests, quantity {quantity}".format_map(self.bill)],
            "balance": self._balance_lines(),
            "truth": [self._truth_line(), *self.truth_differences[:SHOWN_MAX]],
            "proof": [self._proof_line(), *map(str, self.proof.found[:SHOWN_MAX])],
            "freshness": [self._freshness_line(self.freshness)],
            "  steady": [self._freshness_line(self.steady) + ", start and drill apart"],
            "rates": [self._rates_line()],
            "drill": self._drill_lines(),
        }
        lines = [
            f"{name if index == 0 else '':<11}{text}"
            for name, texts in sections.items()
            for index, text in enumerate(texts)
        ]
        return [*lines, "", self._verdict(), f"`penstock demo` goes on from {self.home}."]

    def _balance_lines(self) -> list[str]:
        """Two lines that fit a narrow screen."""
        parts = [f"{name} {count:,}" for name, count in self.outcomes.items() if name != "read"]
        sign = "=" if self.balance else "IS NOT"
        first, second = " + ".join(parts[:3]), " + ".join(parts[3:])
        return [f"read {self.outcomes['read']:,} {sign} {first}", f"  + {second}"]

    def _rates_line(self) -> str:
        sent, applied = per_second(self.rates.sent), per_second(self.rates.applied)
        return f"sent {sent}, applied {applied} over {self.rates.seconds:.0f} s"

    def _truth_line(self) -> str:
        if self.truth_differences:
            return f"{len(self.truth_differences)} departures from what the producer sent"
        if self.strangers:
            return f"all records counted; {self.strangers:,} are by others, so outcomes are not compared"
        return "every outcome and every account as the producer counted them"

    def _proof_line(self) -> str:
        count = self.proof.differences
        differences = f"{count} difference" + ("" if count == 1 else "s")
        return f"{differences} in {self.proof.rows:,} rows of {self.proof.views} views, recomputed from the log"

    def _freshness_line(self, spread: Spread | None) -> str:
        if spread is None:
            return "not measured"
        shown = (milliseconds(spread.p50), milliseconds(spread.p99), milliseconds(spread.max))
        return "p50 {}, p99 {}, at most {}".format(*shown)

    def _drill_lines(self) -> list[str]:
        return [outage_line(outage, now=self.begun, begun=self.begun) for outage in self.outages]

    def _verdict(self) -> str:
        if self.holds:
            return "Every record is accounted for, and the bill is proved from the log."
        return "IT DOES NOT ADD UP: see above."


def _ages(spread: Spread | None) -> dict[str, object]:
    if spread is None:
        return {"p50": None, "p99": None, "max": None, "samples": 0}
    return {"p50": spread.p50, "p99": spread.p99, "max": spread.max, "samples": spread.samples}
