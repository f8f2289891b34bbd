"""What a lean world hands to its agents each day, made cheaply: the world interface and the utility function.

`LeanAWI` looks up once what cannot change while a world, or a call, runs. `skip_first_ufun` avoids one of two utility
functions that the stock world makes for each agent each morning: nobody can see the first before the second takes its
place, but the random numbers its making draws must be drawn.
"""

from __future__ import annotations

import random
import string
from functools import cache, cached_property
from typing import Any

from negmas import make_issue
from negmas.negotiators import Controller
from negmas.sao import SAOSyncController
from scml.oneshot.agent import OneShotAgent
from scml.oneshot.awi import OneShotAWI
from scml.oneshot.common import QUANTITY, TIME, UNIT_PRICE
from scml.oneshot.sysagents import DefaultOneShotAdapter

Range = tuple[int, int]

_NAME_CHARACTERS = string.digits + string.ascii_letters
_UFUN_HOOKS = "__setattr__ make_ufun ufun preferences set_preferences on_preferences_changed"
_RESETS = (Controller.reset, SAOSyncController.reset)


class LeanAWI(OneShotAWI):  # type: ignore[misc]
    """scml's interface of an agent to its world; place and size in the supply chain are looked up only once."""

    @cached_property
    def profile(self) -> Any:
        return super().profile

    @cached_property
    def n_lines(self) -> int:
        return super().n_lines  # type: ignore[no-any-return]

    @cached_property
    def n_products(self) -> int:
        return super().n_products  # type: ignore[no-any-return]

    @cached_property
    def my_input_product(self) -> int:
        return super().my_input_product  # type: ignore[no-any-return]

    @cached_property
    def my_output_product(self) -> int:
        return super().my_output_product  # type: ignore[no-any-return]

    @cached_property
    def level(self) -> int:
        return super().level  # type: ignore[no-any-return]

    @cached_property
    def is_first_level(self) -> bool:
        return super().is_first_level  # type: ignore[no-any-return]

    @cached_property
    def is_last_level(self) -> bool:
        return super().is_last_level  # type: ignore[no-any-return]

    @cached_property
    def my_suppliers(self) -> list[str]:
        return super().my_suppliers  # type: ignore[no-any-return]

    @cached_property
    def my_consumers(self) -> list[str]:
        return super().my_consumers  # type: ignore[no-any-return]

    @property
    def current_step(self) -> int:
        return self._world._current_step  # type: ignore[no-any-return]

    def total_sales_between(self, start: int, end: int) -> int:
        return _total(self._future_sales, max(start, self.current_step), end)

    def total_supplies_between(self, start: int, end: int) -> int:
        return _total(self._future_supplies, max(start, self.current_step), end)

    def total_sales_from(self, start: int) -> int:
        return _total(self._future_sales, max(start, self.current_step), self.n_steps - 1)

    def total_supplies_from(self, start: int) -> int:
        return _total(self._future_supplies, max(start, self.current_step), self.n_steps - 1)


def _total(quantities: dict[int, dict[str, int]], first: int, last: int) -> int:
    """What all partners are to deliver from one day to another, both counted."""
    return sum(sum(day.values()) for i, day in quantities.items() if first <= i <= last)


def skip_first_ufun(adapter: Any, world: Any) -> None:
    """Let an agent's adapter skip a utility function, drawing its random numbers, while `world.skips_ufuns` is set.

    Only for an agent that cannot notice: one with the stock ways to get, set and hear of its utility function.
    """
    agent = adapter.adapted_object
    if type(adapter) is not DefaultOneShotAdapter or type(agent).reset not in _RESETS:
        return
    if any(getattr(type(agent), name) is not getattr(OneShotAgent, name) for name in _UFUN_HOOKS.split()):
        return

    def make_ufun(add_exogenous: bool, in_adapter: bool = False) -> Any:
        if not world.skips_ufuns:
            return DefaultOneShotAdapter.make_ufun(adapter, add_exogenous, in_adapter)
        draw_as_ufun(adapter.awi)
        return adapter.ufun

    adapter.make_ufun = make_ufun


def draw_as_ufun(awi: OneShotAWI) -> None:
    """Draw what making today's utility function draws: its name, and values of its outcome spaces' issues."""
    bought = [(issue.min_value, issue.max_value) for issue in awi.current_input_issues]
    sold = [(issue.min_value, issue.max_value) for issue in awi.current_output_issues]
    time = bought[TIME]
    random.choices(_NAME_CHARACTERS, k=16)
    if awi.is_last_level:
        _draw_as_space(bought[QUANTITY], time, bought[UNIT_PRICE])
    elif awi.is_first_level:
        _draw_as_space(sold[QUANTITY], time, sold[UNIT_PRICE])
    else:
        _draw_as_space(bought[QUANTITY], time, bought[UNIT_PRICE])
        _draw_as_space(sold[QUANTITY], time, sold[QUANTITY])  # scml takes the quantities for prices here


def _draw_as_space(*ranges: Range) -> None:
    for low, high in ranges:
        for _ in range(draws_of_an_issue()):
            random.randint(low, high)


@cache
def draws_of_an_issue() -> int:
    """How often making an issue draws one of its values: a side effect of a Protocol check, so it depends on Python."""
    before = random.getstate()
    make_issue((0, 1), name="counted")
    after = random.getstate()
    random.setstate(before)
    n = 0
    while random.getstate() != after:
        random.randint(0, 1)
        n += 1
    random.setstate(before)
    return n
