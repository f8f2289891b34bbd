"""`echelon hmasd evaluate`: test episodes of a checkpoint, as a table on the console and as JSON."""

from __future__ import annotations

import logging
import math

import torch

from echelon.hmasd.agent import HMASDAgent, find_checkpoint
from echelon.hmasd.evaluation import evaluate, move_to
from echelon.hmasd.options import EvaluateOptions
from echelon.runtime.files import write_json

logger = logging.getLogger("echelon.hmasd")


def run(options: EvaluateOptions) -> int:
    """The command: play, tell, and keep if asked."""
    torch.set_num_threads(1)
    where = find_checkpoint(options.model_path)
    agent = HMASDAgent.load(where)
    if options.env_options:
        move_to(agent, options.env_options)
    result = evaluate(agent, options.episodes, options.seed, options.greedy)
    logger.info("%s on %s: %s", where.name, agent.config.env, result)
    if options.json_path is not None:
        content = {
            "checkpoint": str(where),
            **result.tags(),
            "returns": result.returns.tolist(),
            "lengths": result.lengths.tolist(),
            "success": None if result.success is None else result.success.astype(bool).tolist(),
            "metrics": {
                name: [None if math.isnan(x) else x for x in told.tolist()] for name, told in result.metrics.items()
            },
        }
        write_json(options.json_path, content)
    return 0
