"""What the agent remembers of its partners."""

from __future__ import annotations

from echelon.hrl_xf.play.choice import choose_layers
from echelon.hrl_xf.play.day import DayPlay, Question
from echelon.hrl_xf.play.memory import DAYS, PartnerMemory
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from tests.hrl_xf.state.examples import a_day


def test_the_largest_of_the_last_days_is_remembered() -> None:
    memory = PartnerMemory()
    assert memory.asked("a", 0) == 0
    memory.tell("a", 3, 7)
    memory.tell("a", 3, 2)
    memory.tell("a", 5, 4)
    memory.tell("b", 5, 9)
    assert memory.asked("a", 5) == 7
    assert memory.asked("a", 3 + DAYS - 1) == 7
    assert memory.asked("a", 3 + DAYS) == 4
    assert memory.asked("a", 5 + DAYS) == 0


def test_offers_and_deals_of_a_day_are_seen_on_the_next() -> None:
    layers, memory = choose_layers("heuristic", "heuristic", "heuristic"), PartnerMemory()

    def day_of(step: int) -> DayPlay:
        partners = {"a": "seller", "b": "seller", "c": "seller"}
        return DayPlay(a_day(current_step=step, inventory_input=10), layers, L1SafetyLayer(), partners, memory=memory)  # type: ignore[arg-type]

    today = day_of(10)
    today.heard("a", (3, 12, 30))
    today.said("b", (6, 12, 30))
    today.signed("b", (6, 12, 30))
    tomorrow = day_of(11)
    tomorrow.answer([Question(name, None, 0, 0.0) for name in "abc"])
    assert tomorrow.last_call is not None
    assert tomorrow.last_call.situation.asked.tolist() == [3, 6, 0]
