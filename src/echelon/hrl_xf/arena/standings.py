"""From results of the arena to standings: scores by level (`collect.scores`), paired differences, ranks, conduct."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Literal, get_args

import msgspec
import numpy as np

from echelon.hrl_xf.arena.seat import Losses, SeatRecord
from echelon.hrl_xf.arena.world import ArenaResult
from echelon.hrl_xf.collect.scores import Estimate, Score, bootstrap, scored, summed

FORMAT_VERSION = 3
Scope = Literal["all", "first", "middle", "last"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
WORLDS_TO_BE_SURE = 10


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """An agent against a rival in the same seats of the same worlds."""

    agent: str
    rival: str
    scope: Scope
    worlds: int
    difference: Estimate
    win_rate: float
    """share of worlds in which the agent scores more; a tie is half a win"""

    @property
    def sure(self) -> bool:
        """Whether the interval leaves 0 out; a bootstrap of few worlds is too narrow to say so."""
        return self.worlds >= WORLDS_TO_BE_SURE and (self.difference.low > 0 or self.difference.high < 0)


class Conduct(msgspec.Struct, frozen=True, kw_only=True):
    """What a competitor did, per seat and day or as a share."""

    seats: int
    bankrupt: int
    contracts_per_day: float
    bought_per_day: float
    sold_per_day: float
    shortfall_per_day: float
    undelivered: int
    """pieces that the agent had promised and could not deliver, all seats together"""
    leftover: float
    """pieces in stock at the end, per seat"""
    shortfall_rate: float
    """share of days with a shortfall"""
    beyond_l1_sent: float
    """share of the pieces offered or accepted that were beyond L1's limits at that moment"""
    beyond_l1_signed: float
    """the same of the pieces in deals"""
    exceptions: int
    fallbacks: int
    """how often a layer of our agents failed, so that the rules played"""
    recorder_failures: int
    seconds_per_day: float
    losses: Losses
    """by cause, per seat, as shares of the initial balance"""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One competitor's line."""

    competitor: str
    worlds: int
    mean_rank: float | None
    """among all competitors, over the configurations all of them have played; None if there is none"""
    scores: dict[Scope, Score]
    conduct: Conduct


class Standings(msgspec.Struct, frozen=True, kw_only=True):
    """standings.json"""

    format_version: int = FORMAT_VERSION
    agents: list[str]
    """whom the paired differences are about"""
    complete_worlds: int
    """configurations that all competitors have played"""
    resamples: int
    competitors: list[Standing]
    """best first, by truncated mean"""
    paired: list[Paired]


def check_paired(results: Iterable[ArenaResult]) -> None:
    """All competitors must have played the same configuration i."""
    digests: dict[int, ArenaResult] = {}
    for result in results:
        known = digests.setdefault(result.index, result)
        seats = [[s.seat for s in r.seats] for r in (known, result)]
        if known.digest != result.digest or seats[0] != seats[1]:
            raise ValueError(
                f"configuration {result.index} is not the same for {known.competitor} ({known.digest}) and "
                f"{result.competitor} ({result.digest}): other options or another scml; use another --output-dir"
            )


def standings(results: Sequence[ArenaResult], agents: Sequence[str], resamples: int = 10_000) -> Standings:
    """Standings of all competitors that have results; differences of each of `agents` to every other."""
    check_paired(results)
    by_name: dict[str, dict[int, ArenaResult]] = {}
    for result in results:
        by_name.setdefault(result.competitor, {})[result.index] = result
    ranks, complete = mean_ranks(by_name)
    lines = [_standing(name, played, ranks.get(name), resamples) for name, played in by_name.items()]
    pairs = [(agent, rival) for agent in agents if agent in by_name for rival in by_name if rival != agent]
    paired = [
        found
        for scope in SCOPES
        for agent, rival in pairs
        if (found := _paired(agent, rival, by_name, scope, resamples)) is not None
    ]
    return Standings(
        agents=[name for name in agents if name in by_name],
        complete_worlds=complete,
        resamples=resamples,
        competitors=sorted(lines, key=lambda line: -line.scores["all"].truncated_mean),
        paired=paired,
    )


def mean_ranks(by_name: Mapping[str, Mapping[int, ArenaResult]]) -> tuple[dict[str, float], int]:
    """Mean rank (1 is best, ties share) over configurations that all have played, and how many these are."""
    complete = sorted(set.intersection(*(set(played) for played in by_name.values()))) if by_name else []
    if not complete:
        return {}, 0
    scores = np.array([[played[i].score for played in by_name.values()] for i in complete])  # (N, C)
    above = (scores[:, None, :] > scores[:, :, None]).sum(axis=2)
    equal = (scores[:, None, :] == scores[:, :, None]).sum(axis=2)
    ranks = (above + (equal + 1) / 2).mean(axis=0)
    return dict(zip(by_name, ranks.tolist(), strict=True)), len(complete)


def _clusters(played: Mapping[int, ArenaResult], scope: Scope) -> dict[Hashable, list[float]]:
    """Scores by configuration: a world's mean once, or the seats of a place."""
    found: dict[Hashable, list[float]] = {}
    for index in sorted(played):
        result = played[index]
        values = [result.score] if scope == "all" else [s.score for s in result.seats if s.place == scope]
        if values:
            found[index] = values
    return found


def _paired(
    agent: str, rival: str, by_name: Mapping[str, Mapping[int, ArenaResult]], scope: Scope, resamples: int
) -> Paired | None:
    both = by_name[agent].keys() & by_name[rival].keys()
    ours, theirs = (_clusters({i: by_name[name][i] for i in both}, scope) for name in (agent, rival))
    if not ours:
        return None
    (mine, count), (its, _) = summed(ours.values()), summed(theirs.values())
    better = np.sign(mine - its)
    return Paired(
        agent=agent,
        rival=rival,
        scope=scope,
        worlds=len(ours),
        difference=bootstrap(mine - its, count, resamples, "difference"),
        win_rate=float(((better + 1) / 2).mean()),
    )


def _standing(name: str, played: Mapping[int, ArenaResult], rank: float | None, resamples: int) -> Standing:
    of_scope = {scope: _clusters(played, scope) for scope in SCOPES}
    return Standing(
        competitor=name,
        worlds=len(played),
        mean_rank=rank,
        scores={scope: Score(**scored(found, resamples)) for scope, found in of_scope.items() if found},
        conduct=conduct(list(played.values())),
    )


def conduct(results: Sequence[ArenaResult]) -> Conduct:
    """Totals over all focal seats of a competitor."""
    seats = [seat for result in results for seat in result.seats]
    days = sum(len(seat.balance) for seat in seats)

    def total(value: Callable[[SeatRecord], float]) -> float:
        return float(sum(map(value, seats)))

    def share(part: Callable[[SeatRecord], float], whole: Callable[[SeatRecord], float]) -> float:
        return total(part) / total(whole) if total(whole) else 0.0

    causes = {
        cause: total(lambda s, cause=cause: getattr(s.losses, cause) / (s.initial_balance or 1.0)) / len(seats)  # type: ignore[misc]
        for cause in Losses.__struct_fields__
    }
    return Conduct(
        seats=len(seats),
        bankrupt=sum(seat.bankrupt for seat in seats),
        contracts_per_day=total(lambda s: s.contracts) / days,
        bought_per_day=total(lambda s: s.bought) / days,
        sold_per_day=total(lambda s: s.sold) / days,
        shortfall_per_day=total(lambda s: s.shortfall) / days,
        undelivered=sum(s.undelivered for s in seats),
        leftover=total(lambda s: s.leftover) / len(seats),
        shortfall_rate=total(lambda s: s.shortfall_days) / days,
        beyond_l1_sent=share(lambda s: s.beyond_l1_sent, lambda s: s.sent),
        beyond_l1_signed=share(lambda s: s.beyond_l1_signed, lambda s: s.signed),
        exceptions=sum(s.exceptions + s.negotiator_exceptions for s in seats),
        fallbacks=sum(s.fallbacks for s in seats),
        recorder_failures=sum(s.recorder_failures for s in seats),
        seconds_per_day=total(lambda s: s.seconds) / days,
        losses=Losses(**causes),
    )
