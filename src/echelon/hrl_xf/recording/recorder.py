"""What a tracked agent saw and did. One recorder an agent a world.

While the world plays, a recorder only takes notes (see `log_writer`): between an agent's own work every step of Python
costs several times what it costs in a loop. A note holds what may change later as it was when the note was taken; a
signed contract changes only in its outcome, so it is recorded itself, with whether it is valid.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from echelon.hrl_xf.recording.dawn_reader import DawnReader, Market
from echelon.hrl_xf.recording.log_writer import (
    ANSWERED,
    BEGAN,
    CLOSED,
    DAWNED,
    EXECUTED,
    OPENED,
    SIGNED,
    LogWriter,
    frozen_copy,
)
from echelon.hrl_xf.state.schema import AgentInitialized, AgentInitializedEntry, AgentLog, Asked, Entry, LogStats

_SERIES = ("balance", "inventory_input", "inventory_output", "profit", "productivity")
_NO_NEGOTIATIONS: dict[str, dict[str, Any]] = {"buy": {}, "sell": {}}
_version = cache(version)


class Recorder:
    """Takes notes; `entries` are the notes written out, and `finish` turns them into an `AgentLog`."""

    def __init__(self, default_asked: Asked, market: Market | None = None) -> None:
        """`default_asked` says who gave an answer that came from neither `first_proposals` nor `counter_all`; `market`
        may be shared by the recorders of a world."""
        self.notes: list[Any] = []
        self._writer = LogWriter(default_asked)
        self._market = market
        self._day = -1
        self._world: Any = None
        self._me = ""
        self._rounds = 0
        self._partners: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._reader: DawnReader
        self._contracts_seen = 0
        # Agents call their own methods: only the outermost call is a question, or a decision.
        self.asking_state: Any = None
        self.asking = False
        self.deciding = 0

    @property
    def entries(self) -> list[Entry]:
        """The log so far."""
        self._writer.write(self.notes)
        self.notes.clear()
        return self._writer.entries

    def count_failure(self) -> None:
        """Count the exception that is being handled: a recorder's failure is never raised into the agent."""
        self._writer.count_failure()

    # -- the day's frame --

    def dawn(self, agent: Any) -> None:
        if self._day < 0:
            self._begin(agent)
        dawn = self._reader.look()
        self._day = dawn.step
        details = self._world._agent_negotiations.get(self._me, _NO_NEGOTIATIONS)
        buy, sell = details["buy"], details["sell"]
        if not self._rounds:  # a world gives all its negotiations the same
            self._rounds = next((one.nmi.n_steps for one in (buy or sell).values()), 0)
        partners = (tuple(buy), tuple(sell))
        if partners != self._partners:  # nearly always yesterday's
            self._partners = partners
        self.notes.extend((DAWNED, dawn, self._rounds, *self._partners, None))

    def _begin(self, agent: Any) -> None:
        awi = agent.awi
        self._world, self._me = awi._world, awi.agent.id
        self._reader = DawnReader(awi, self._market or Market(awi._world))
        entry = AgentInitializedEntry(day=awi.current_step, data=_initialized(agent, awi))
        self.notes.extend((BEGAN, self._me, self._reader, entry, None, None))

    def dusk(self) -> None:
        world, me = self._world, self._me
        contracts = world.agent_contracts[me]
        for contract in contracts[self._contracts_seen :]:
            self.notes.extend((SIGNED, contract, contract.nullified_at < 0, None, None, None))
        self._contracts_seen = len(contracts)
        self.notes.extend((EXECUTED, world._input_quantity[me], world._output_quantity[me], None, None, None))

    # -- decisions about all threads at once --

    def opened(self, proposals: Any) -> None:
        asking, made = self.asking_state, dict(proposals or ())
        for partner, outcome in made.items():
            if type(outcome) is not tuple:
                made[partner] = frozen_copy(outcome)
        self.notes.extend((OPENED, asking.step, asking.relative_time, made, None, None))

    def answered(self, offers: Any, states: Any, responses: Any) -> None:
        seen: list[Any] = []
        answers: list[Any] = []
        asking = self.asking_state
        for partner, outcome in offers.items():
            state = states.get(partner, asking)
            made = outcome if type(outcome) is tuple else frozen_copy(outcome)
            seen += (partner, made, state.step, state.relative_time)
        if len(states) > len(offers):
            for partner in [one for one in states if one not in offers]:
                seen += (partner, None, states[partner].step, states[partner].relative_time)
        for partner, given in responses.items():
            if given is not None:
                outcome = given.outcome
                answers += (partner, given.response, outcome if type(outcome) is tuple else frozen_copy(outcome))
        self.notes.extend((ANSWERED, asking.step, asking.relative_time, seen, answers, None))

    # -- the log --

    def finish(self, agent: Any, *, world_id: str, config_id: str, seed: int) -> AgentLog:
        """Close the last day and hand over the whole log; call it once, after the world has ended."""
        if self._day >= 0:
            self.notes.extend((CLOSED, self._reader.look(), None, None, None, None))
        entries, writer = self.entries, self._writer
        closed, answers = writer.closed_days, writer.answers
        score = closed[-1].balance / self._reader.initial_balance if closed and self._reader.initial_balance else 0.0
        stats = LogStats(
            days=len(closed),
            decisions=sum(answers.values()),
            accepts=answers["ACCEPT"],
            rejects=answers["REJECT"],
            ends=answers["END"],
            deals=writer.deals,
            final_score=score,
            tracker_failures=writer.failures,
            first_tracker_failure=writer.first_failure,
        )
        return AgentLog(
            agent_id=agent.awi.agent.id,
            agent_type=_initialized(agent, agent.awi).agent_type_base,
            world_id=world_id,
            config_id=config_id,
            seed=seed,
            scml_version=_version("scml"),
            negmas_version=_version("negmas"),
            stats=stats,
            time_series={name: [float(getattr(day, name)) for day in closed] for name in _SERIES},
            entries=entries,
        )


def _initialized(agent: Any, awi: Any) -> AgentInitialized:
    from echelon.hrl_xf.recording.tracker import base_class  # the tracker imports this module

    raw, base = type(agent), base_class(type(agent))
    return AgentInitialized(
        n_steps=awi.n_steps,
        n_lines=int(awi.n_lines),
        level=awi.level,
        n_products=awi.n_products,
        agent_type_raw=raw.__name__,
        agent_type_raw_full=f"{raw.__module__}.{raw.__qualname__}",
        agent_type_base=base.__name__,
        agent_type_base_full=f"{base.__module__}.{base.__qualname__}",
    )
