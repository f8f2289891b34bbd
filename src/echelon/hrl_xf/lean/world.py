"""SCML Standard worlds that play the stock game and keep only what collection reads.

`LeanStdWorld` is scml's SCML2024StdWorld for the collector: agents see the same values and callbacks in the same order
and draw the same random numbers, so contracts and scores are those of the stock world, several times faster.

Left out: the flat record of each negotiation, daily tables, edges, log lines, every file and folder, and all
wall-clock limits (nothing stops a slow agent: the caller must limit its time).

Made reproducible where the stock world is not: entities and unsigned contracts keep their order of arrival (stock: sets
ordered by memory address and by random id), ids of negotiations and contracts are numbers, and the clock stands still
just after the start, so that `relative_time` counts days only. `times` holds the seconds each agent used in total.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

from negmas.helpers import exception2str
from negmas.serialization import deserialize
from negmas.situated import Contract
from scml.std.world import STD_DEFAULT_PARAMS, SCML2024StdWorld

from echelon.hrl_xf.lean.interface import LeanAWI, skip_first_ufun
from echelon.hrl_xf.lean.mechanism import ClocklessMechanism
from echelon.hrl_xf.lean.negotiations import NegotiatingWorld

_CLOCKLESS = f"{ClocklessMechanism.__module__}.{ClocklessMechanism.__qualname__}"
_CLOCK = 0.05
"""Seconds the world says have passed, always: a little above 0, because agents compute prices from `relative_time`,
which is above 0 on the first day of any stock world, and an offer at exactly 0 would be another one."""
_QUIET: dict[str, Any] = {
    "no_logs": True,
    "log_folder": None,
    "log_to_screen": False,
    "log_ufuns": False,
    "log_negotiations": False,
    "log_stats_every": 0,
    "event_file_name": None,
    "checkpoint_folder": None,
    "saved_details_level": 0,
    "construct_graphs": False,
}


class OrderedSet(dict[Any, None]):
    """A set that keeps the order of arrival, with the methods the world uses."""

    def add(self, item: Any) -> None:
        self[item] = None

    def remove(self, item: Any) -> None:
        del self[item]


class Reproducible(SCML2024StdWorld):  # type: ignore[misc]
    """A world whose play depends on its seeds alone: things keep their order of arrival, and the clock stands still."""

    mechanisms: dict[str, dict[str, Any]]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        (settings,) = self.mechanisms.values()
        self.mechanisms = {_CLOCKLESS: settings}

    @property
    def _entities(self) -> Any:
        return self.__dict__["_entities"]

    @_entities.setter
    def _entities(self, value: Any) -> None:
        self.__dict__["_entities"] = defaultdict(OrderedSet)

    @property
    def unsigned_contracts(self) -> Any:
        return self.__dict__["unsigned_contracts"]

    @unsigned_contracts.setter
    def unsigned_contracts(self, value: Any) -> None:
        self.__dict__["unsigned_contracts"] = defaultdict(OrderedSet)

    @property
    def time(self) -> float:
        return 0.0 if self._start_time is None else _CLOCK


class LeanStdWorld(NegotiatingWorld, Reproducible):
    """The SCML 2024 Standard world without records; see the module's docstring."""

    def __init__(self, **kwargs: Any) -> None:
        self._n_concluded = 0
        self._folder = kwargs.get("log_folder")
        self.skips_ufuns = False
        super().__init__(**(kwargs | _QUIET))
        self.save_negotiations = False
        self._number_exogenous()
        prices = self.bulletin_board.data.get("trading_prices", {})
        for key in list(prices):  # recorded under a random id
            prices["initial"] = prices.pop(key)
        for adapter in self.agents.values():
            skip_first_ufun(adapter, self)

    @property
    def log_folder(self) -> str:
        """The folder named at creation, for the caller's own files; the world neither makes it nor writes to it."""
        return "" if self._folder is None else str(self._folder)

    @property
    def _log_folder(self) -> Any:
        return self.__dict__["_log_folder"]

    @_log_folder.setter
    def _log_folder(self, value: Any) -> None:
        """World.__init__ builds the folder as a Path and at last keeps it as str: there is none to keep."""
        self.__dict__["_log_folder"] = value if isinstance(value, Path) else ""

    @property
    def awi_type(self) -> type[LeanAWI]:
        return LeanAWI

    @awi_type.setter
    def awi_type(self, value: Any) -> None:
        """World.__init__ sets the stock type."""

    def _number_exogenous(self) -> None:
        """Give contracts made before the first day numbers for ids, and keep the waiting ones findable by them."""
        for number, contract in enumerate(c for day in self.exogenous_contracts.values() for c in day):
            contract.id = f"exogenous-{number:06d}"
        waiting = [(day, list(contracts)) for day, contracts in self.unsigned_contracts.items()]
        self.unsigned_contracts = None
        for day, contracts in waiting:
            for contract in contracts:
                self.unsigned_contracts[day].add(contract)

    def on_contract_concluded(self, contract: Contract, to_be_signed_at: int) -> None:
        if contract.mechanism_id is not None:
            self._n_concluded += 1
            contract.id = f"contract-{self._n_concluded:06d}"
        super().on_contract_concluded(contract, to_be_signed_at)

    def call(self, agent: Any, method: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a method of an agent; count what it raises and the time it takes."""
        if self.disable_agent_printing:
            return super().call(agent, method, *args, **kwargs)
        start = perf_counter()
        try:
            return method(*args, **kwargs)
        except Exception as error:  # an agent may raise anything
            self.agent_exceptions[agent.id].append((self._current_step, exception2str()))
            self.on_exception(agent, error)
            if not self.ignore_agent_exception:
                raise
        finally:
            self.times[agent.id] += perf_counter() - start

    def simulation_step(self, stage: int = 0) -> None:
        self.skips_ufuns = stage == 0  # until the negotiations of the day are made, which makes the ufuns again
        super().simulation_step(stage)

    def _make_negotiations(self) -> None:
        self.skips_ufuns = False
        super()._make_negotiations()

    def executable_contracts(self) -> Iterable[Contract]:
        """Today's contracts, without the stock world's check of all contracts ever saved."""
        return self.contracts_per_step.get(self.current_step, [])  # type: ignore[no-any-return]


_STD_DEFAULTS = dict(STD_DEFAULT_PARAMS)  # scml's generator writes the world's parameters into its own defaults
_TAKEN_FROM_ASSIGNMENT = (
    "agent_types",
    "agent_params",
    "name",
    "log_folder",
    "ignore_agent_exceptions",
    "ignore_contract_execution_exceptions",
    "ignore_simulation_exceptions",
    "ignore_negotiation_exceptions",
)


def lean_std_world_generator(**kwargs: Any) -> LeanStdWorld:
    """The world scml.utils.anac2024_std_world_generator makes from the same assigned config, as a LeanStdWorld.

    Draws the same random numbers; changes neither its arguments nor scml's defaults, and writes nothing.
    """
    params = copy.deepcopy(kwargs["world_params"])
    exact = deserialize(params.pop("__exact_params"))
    context = params.pop("__context", None)
    params = _STD_DEFAULTS | params | {"random_agent_types": False}
    if context is None:
        assigned = SCML2024StdWorld.generate(**params)
    else:
        assigned = deserialize(context).generate(SCML2024StdWorld, params=params)
    exact |= {key: assigned[key] for key in _TAKEN_FROM_ASSIGNMENT if key in assigned}
    exact["info"] = exact.get("info", {}) | {"is_default": kwargs["is_default"]}
    return LeanStdWorld(**exact)
