"""Small results of the arena, made up."""

from __future__ import annotations

from echelon.hrl_xf.arena.seat import Losses, SeatRecord
from echelon.hrl_xf.arena.world import ArenaResult
from echelon.hrl_xf.options.play import Place

NO_LOSSES = Losses(shortfall=0, storage=0, price_bought=0, price_sold=0, idle_lines=0, leftover=0)


def seat(score: float, place: Place = "first", number: int = 0, **changes: object) -> SeatRecord:
    """A factory with this score that did nothing else on two days."""
    values: dict[str, object] = {
        "seat": number,
        "agent_id": f"{number:02d}",
        "level": 0,
        "place": place,
        "score": score,
        "initial_balance": 100.0,
        "bankrupt": False,
        "contracts": 0,
        "bought": 0,
        "sold": 0,
        "shortfall": 0,
        "undelivered": 0,
        "leftover": 0,
        "shortfall_days": 0,
        "sent": 0,
        "beyond_l1_sent": 0,
        "signed": 0,
        "beyond_l1_signed": 0,
        "exceptions": 0,
        "negotiator_exceptions": 0,
        "recorder_failures": 0,
        "fallbacks": 0,
        "idle_lines": 0,
        "losses": NO_LOSSES,
        "balance": [100.0, 100.0],
        "inventory_input": [0, 0],
        "inventory_output": [0, 0],
        "seconds": 0.0,
    }
    return SeatRecord(**(values | changes))  # type: ignore[arg-type]


def result(competitor: str, index: int, *seats: SeatRecord, digest: str = "same") -> ArenaResult:
    return ArenaResult(
        index=index, competitor=competitor, digest=digest, seed=0, levels=2, days=2, background=[], scores=[],
        contracts=0, simulation_exceptions=0, seats=list(seats), seconds=0.0,
    )  # fmt: skip
