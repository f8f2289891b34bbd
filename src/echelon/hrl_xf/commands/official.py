"""`echelon hrl compete --official`: play what is missing of a tournament in the league's own format, and show it."""

from __future__ import annotations

import logging

import msgspec

from echelon.hrl_xf.arena.contest import check_agent, competitors_of
from echelon.hrl_xf.arena.official import (
    KIND,
    official_plan,
    plan_options,
    set_old_apart,
    total_scores,
)
from echelon.hrl_xf.arena.tables import total_scores_table
from echelon.hrl_xf.collect.code import code_by_world
from echelon.hrl_xf.collect.collection import announce, open_plan, play_missing, report, write_tables
from echelon.hrl_xf.collect.folder import EXIT_SOME_FAILED, check_same, contents, exclusive
from echelon.hrl_xf.collect.plan import plan_worlds
from echelon.hrl_xf.collect.world import result_path
from echelon.hrl_xf.options.compete import CompeteOptions
from echelon.runtime.execution.executors import n_workers
from echelon.runtime.files import write_atomic

log = logging.getLogger(__name__)


def run(options: CompeteOptions) -> int:
    """Refuse what cannot work, play what is missing, then derive the tables from the results."""
    n_workers(options.parallelism)  # raises on a wrong one
    agents, competitors = competitors_of(options)
    fixed, output_dir = plan_options(options, competitors), options.folder
    plan = official_plan(fixed)
    if contents(output_dir):
        check_same(output_dir, KIND, fixed)
    for spec in competitors:
        check_agent(spec)
    with exclusive(output_dir, KIND):
        worlds, params = plan_worlds(plan)
        open_plan(output_dir, KIND, fixed, plan, worlds, params)
        code = code_by_world(worlds, competitors)
        set_old_apart(worlds, code, output_dir, options.keep_old)
        missing = [w for w in worlds if not options.keep_old and not result_path(output_dir, w.index).exists()]
        announce(plan, worlds, missing, options, output_dir)
        played = play_missing(worlds, missing, options, output_dir, code=code, specs=competitors)
        if played.results:
            write_tables(output_dir, played.results, detailed=False)
            table = total_scores(played.results, agents, options.resamples)
            write_atomic(output_dir / "official.json", msgspec.json.format(msgspec.json.encode(table)))
            log.info("%s", total_scores_table(table.competitors, table.agents))
        report(played, output_dir, with_scores=False)
    return EXIT_SOME_FAILED if played.run.failed else 0
