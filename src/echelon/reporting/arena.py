"""An arena on the page: standings, levels, paired differences, days, losses, conduct, and some negotiations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from echelon.hrl_xf.arena.seat import Losses
from echelon.hrl_xf.arena.stale import mixed_code
from echelon.hrl_xf.arena.standings import SCOPES, Standings, conduct, standings
from echelon.hrl_xf.arena.world import ArenaResult, results_in
from echelon.hrl_xf.collect.scores import Estimate
from echelon.reporting.day_curves import curves
from echelon.reporting.tables import Cell, Column, Table, interval, number, rows_of, score_on_page, words
from echelon.runtime.files import read_json

CAUSES = {
    "shortfall": "shortfall penalties",
    "storage": "storage and disposal",
    "price_bought": "bought above trading price",
    "price_sold": "sold below trading price",
    "idle_lines": "idle lines",
    "leftover": "stock left over",
}
RESAMPLES = 10_000
_SEATS = {"each-level": "one on each level", "two-each-level": "two on each level", "one": "one, on each level in turn"}


def evaluated_agents(folder: Path, results: Sequence[ArenaResult]) -> tuple[list[str], int]:
    """The agents that were evaluated, and the number of resamples: as `compete` wrote them, or its defaults."""
    file = folder / "standings.json"
    if file.exists():
        saved = read_json(file)
        return saved["agents"], saved["resamples"]
    known = read_json(folder / "competitors.json")["competitors"]
    own = [label for label, saved in known.items() if str(saved["agent"]).startswith("echelon.")]
    return own or [results[0].competitor], RESAMPLES


def arena(folder: Path) -> dict[str, Any]:
    """Everything the page says about an arena, but for its negotiations."""
    results = results_in(folder)
    agents, resamples = evaluated_agents(folder, results)
    table = standings(results, agents, resamples)
    by_name: dict[str, list[ArenaResult]] = {line.competitor: [] for line in table.competitors}
    for result in results:
        by_name[result.competitor].append(result)
    lost = losses(by_name)
    return {
        "facts": facts(folder, results, table),
        "verdicts": verdicts(table),
        "agents": table.agents,
        "competitors": list(by_name),
        "tables": [standings_table(table), paired_table(table), losses_table(lost["all"]), conduct_table(table)],
        "standings": [
            {"name": line.competitor, "scopes": {scope: score_on_page(score) for scope, score in line.scores.items()}}
            for line in table.competitors
        ],
        "paired": [
            msgspec.to_builtins(p.difference) | {k: getattr(p, k) for k in ("agent", "rival", "scope", "win_rate")}
            for p in table.paired
        ],
        "curves": curves(by_name, SCOPES),
        "losses": lost,
        "causes": CAUSES,
    }


def facts(folder: Path, results: Sequence[ArenaResult], table: Standings) -> list[tuple[str, str]]:
    options = read_json(folder / "config.json")["options"]
    days = sorted({result.days for result in results})
    played = len({result.index for result in results})
    mixed = mixed_code(results)
    return [
        ("configurations", f"{played}, {table.complete_worlds} of them played by all"),
        ("worlds played", f"{len(results)}"),
        ("days", f"{days[0]}" if len(days) == 1 else f"{days[0]} to {days[-1]}"),
        ("competitor's seats", _SEATS[options["seats"]]),
        ("in the other seats", ", ".join(str(options["field"]).split(","))),
        ("seed", str(options["seed"])),
        *([("played by several versions of the code", ", ".join(mixed))] if mixed else []),
        ("intervals", f"95 %, bootstrap over configurations, {table.resamples:,} resamples"),
    ]


def verdicts(table: Standings) -> list[str]:
    """One or two sentences per evaluated agent."""
    names = [line.competitor for line in table.competitors]
    said = []
    for agent in table.agents:
        score = table.competitors[names.index(agent)].scores["all"]
        mean = interval(msgspec.to_builtins(score.score)).text
        place = f"{agent} takes place {names.index(agent) + 1} of {len(names)}: mean score {mean}."
        sides: dict[str, list[str]] = {"better": [], "worse": [], "open": []}
        for p in table.paired:
            if p.agent == agent and p.scope == "all":
                sides[certainty(p.difference)].append(f"{p.rival} ({number(p.difference.mean, '+.3f').text})")
        said_of = {"better": "better than", "worse": "worse than", "open": "not distinguishable from"}
        rest = "; ".join(f"{said_of[side]} {', '.join(who)}" for side, who in sides.items() if who)
        said.append(place + (f" {rest[0].upper()}{rest[1:]}." if rest else ""))
    return said


def certainty(difference: Estimate) -> str:
    """On which side of 0 the interval is; `open` if it contains 0."""
    return "better" if difference.low > 0 else "worse" if difference.high < 0 else "open"


def losses(by_name: Mapping[str, Sequence[ArenaResult]]) -> dict[str, dict[str, dict[str, float]]]:
    """By scope and competitor: money lost by cause, per seat, as shares of the initial balance."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for scope in SCOPES:
        for name, results in by_name.items():
            chosen = [_seats_of(result, scope) for result in results]
            chosen = [result for result in chosen if result.seats]
            if chosen:
                lost: Losses = conduct(chosen).losses
                found.setdefault(scope, {})[name] = msgspec.to_builtins(lost)
    return found


def _seats_of(result: ArenaResult, scope: str) -> ArenaResult:
    seats = [seat for seat in result.seats if scope in ("all", seat.place)]
    return msgspec.structs.replace(result, seats=seats)


def standings_table(table: Standings) -> Table:
    columns = [
        Column("#", "place by truncated mean, the league's ranking"),
        Column("competitor", text=True),
        Column("worlds", "configurations it has played"),
        Column("truncated mean", "mean score without outliers above the third quartile + 2 interquartile ranges"),
        Column("mean [95 %]", "mean score of a world with its bootstrap interval"),
        *(Column(scope, f"mean score of the seats on the {scope} level") for scope in SCOPES[1:]),
        Column("mean rank", "1 is best, over configurations that all have played"),
    ]
    rows = []
    for place, line in enumerate(table.competitors, start=1):
        overall = line.scores["all"]
        levels = [number(line.scores[s].score.mean if s in line.scores else None) for s in SCOPES[1:]]
        rows.append(
            [
                Cell(str(place), place), words(line.competitor), number(line.worlds, "d"),
                number(overall.truncated_mean), interval(msgspec.to_builtins(overall.score)), *levels,
                number(line.mean_rank, ".2f"),
            ]
        )  # fmt: skip
    marked = [line.competitor in table.agents for line in table.competitors]
    return Table("standings", "Scores, best first", columns, rows, marked)


def paired_table(table: Standings) -> Table:
    columns = [
        Column("agent", text=True),
        Column("rival", text=True),
        Column("seats", "all seats, or those of one level", text=True),
        Column("worlds", "configurations both have played"),
        Column("agent − rival [95 %]", "mean difference of scores in the same seats of the same worlds"),
        Column("wins", "share of worlds in which the agent scores more; a tie is half a win"),
        Column("certain", "whether the interval excludes 0", text=True),
    ]
    rows = rows_of(
        table.paired,
        lambda p: words(p.agent),
        lambda p: words(p.rival),
        lambda p: words(p.scope),
        lambda p: number(p.worlds, "d"),
        lambda p: interval(msgspec.to_builtins(p.difference), "+"),
        lambda p: Cell(f"{p.win_rate:.0%}", p.win_rate),
        lambda p: words(certainty(p.difference)),
    )
    return Table("paired", "Paired differences", columns, rows)


def losses_table(lost: Mapping[str, Mapping[str, float]]) -> Table:
    columns = [Column("competitor", text=True), *(Column(name) for name in CAUSES.values())]
    rows = [[words(name), *(number(of[cause], "+.4f") for cause in CAUSES)] for name, of in lost.items()]
    return Table("losses", "Losses by cause, all seats, as shares of the initial balance", columns, rows)


def conduct_table(table: Standings) -> Table:
    columns = [
        Column("competitor", text=True),
        Column("contracts / day", "negotiated contracts signed, per seat and day"),
        Column("bought / day", "pieces bought by negotiation, per seat and day"),
        Column("sold / day", "pieces sold by negotiation, per seat and day"),
        Column("undelivered", "pieces the agent had promised and could not deliver, by the world's books, all seats"),
        Column("shortfall / day", "pieces sold and not delivered, exogenous sales included, per seat and day"),
        Column("left over", "pieces in stock at the end, per seat"),
        Column("short days", "share of days with a shortfall"),
        Column("sent beyond L1", "pieces offered or accepted beyond L1's limits, as a share of all"),
        Column("signed beyond L1", "the same of the pieces in deals"),
        Column("bankrupt", "seats that went bankrupt"),
        Column("errors", "exceptions of the agent or its negotiators"),
        Column("fallbacks", "how often a layer of our agents failed and the rules played instead"),
        Column("ms / day", "time of the agent's calls, recording included"),
    ]
    rows = rows_of(
        table.competitors,
        lambda line: words(line.competitor),
        lambda line: number(line.conduct.contracts_per_day, ".2f"),
        lambda line: number(line.conduct.bought_per_day, ".2f"),
        lambda line: number(line.conduct.sold_per_day, ".2f"),
        lambda line: number(line.conduct.undelivered, "d"),
        lambda line: number(line.conduct.shortfall_per_day, ".2f"),
        lambda line: number(line.conduct.leftover, ".1f"),
        lambda line: Cell(f"{line.conduct.shortfall_rate:.1%}", line.conduct.shortfall_rate),
        lambda line: Cell(f"{line.conduct.beyond_l1_sent:.1%}", line.conduct.beyond_l1_sent),
        lambda line: Cell(f"{line.conduct.beyond_l1_signed:.1%}", line.conduct.beyond_l1_signed),
        lambda line: Cell(f"{line.conduct.bankrupt} of {line.conduct.seats}", line.conduct.bankrupt),
        lambda line: number(line.conduct.exceptions, "d"),
        lambda line: number(line.conduct.fallbacks, "d"),
        lambda line: number(1000 * line.conduct.seconds_per_day, ".1f"),
    )
    return Table(
        "conduct", "Conduct per seat", columns, rows, [line.competitor in table.agents for line in table.competitors]
    )
