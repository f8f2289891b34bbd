"""`echelon hmasd evaluate`: test episodes of a checkpoint and its controls, on the console and as JSON."""

from __future__ import annotations

import logging
import math
from typing import Any

import torch

from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.controls import best_fixed, random_skills
from echelon.hmasd.evaluation import Evaluation, evaluate, use_env_options
from echelon.hmasd.options import EvaluateOptions, SkillChoice
from echelon.hmasd.player import find_checkpoint
from echelon.runtime.files import write_json

log = logging.getLogger(__name__)


def run(options: EvaluateOptions) -> int:
    """The command: play, tell, and keep if asked."""
    torch.set_num_threads(1)
    where = find_checkpoint(options.model_path)
    agent = HMASDAgent.load(where)
    if options.env_options:
        use_env_options(agent, options.env_options)
    results = {}
    for choice in dict.fromkeys(options.skills):
        results[choice] = played(agent, choice, options)
        told, _ = results[choice]
        by = "" if options.skills == ("coordinator",) else f"{choice:<11} "
        log.info("%s on %s: %s%s", where.name, agent.config.env, by, told)
    if options.json_path is not None:
        contents = {choice: content for choice, (_, content) in results.items()}
        main = next(iter(contents))
        others = {choice: content for choice, content in contents.items() if choice != main}
        whole = {"checkpoint": str(where), "skills": main, **contents[main], "controls": others}
        write_json(options.json_path, whole)
    return 0


def played(agent: HMASDAgent, choice: SkillChoice, options: EvaluateOptions) -> tuple[str, dict[str, Any]]:
    """One way to choose skills in the test episodes: as a line, and as values for JSON."""
    asked = (agent, options.episodes, options.seed, options.greedy)
    if choice == "fixed":
        best = best_fixed(*asked, options.fixed_choices, options.fixed_episodes)
        chosen = {"choice": list(best.skills), "tried": best.tried, "possible": best.possible}
        return str(best), content_of(best.result) | chosen
    result = evaluate(*asked) if choice == "coordinator" else random_skills(*asked)
    return str(result), content_of(result)


def content_of(result: Evaluation) -> dict[str, Any]:
    """A result as JSON has it; what the environment did not tell is null."""
    return {
        **result.tags(),
        "returns": result.returns.tolist(),
        "lengths": result.lengths.tolist(),
        "success": None if result.success is None else result.success.astype(bool).tolist(),
        "metrics": {
            name: [None if math.isnan(x) else x for x in told.tolist()] for name, told in result.metrics.items()
        },
    }
