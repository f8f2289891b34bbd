"""Rules tuned by playing: random search over the constants of `LitaAgentRules`, a control for online training.

    python experiments/rules_search.py --worlds 1248 --seed 5

Candidates are drawn around the present constants (`RuleConstants`), the first is these constants themselves. All play
the same worlds of the league's field and of the champions' in turn, a seat on each level; after each stage the better
third stays and plays as many more worlds as all did before. What is compared is the score less that of the present
constants in the same seats. Prints the best of every stage, best first. The gain of the winner is biased upwards, since
it was chosen by it: play it on other worlds before it is believed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, fields

import numpy as np

from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.layers.rules import HeuristicCoordinator, HeuristicExecutor, HeuristicManager, RuleConstants
from echelon.hrl_xf.online.collector import play_all
from echelon.hrl_xf.online.worlds import PlayedSeat, WorldTask, play_with
from echelon.runtime.execution.executors import NamedExecutor, make_executor
from echelon.runtime.seeding import rng, task_seed

FIELDS = ("league", "champions")
STAGES = 3


def play_rules(task: WorldTask, constants: RuleConstants) -> list[PlayedSeat]:
    """Play a world by rules with these constants."""
    layers = Layers(HeuristicManager(constants=constants), HeuristicExecutor(constants), HeuristicCoordinator())
    return play_with(task, layers)


def drawn(draw: np.random.Generator) -> RuleConstants:
    """Constants around the present ones; each stays as it is with probability one half."""
    other = RuleConstants(
        hold=round(draw.uniform(0.5, 1.0), 2),
        expected=round(draw.uniform(0.0, 0.8), 2),
        late=int(draw.integers(1, 12)),
        buy_days=int(draw.integers(1, 8)),
        ask_power=round(math.exp(draw.uniform(math.log(0.3), math.log(3.0))), 2),
        ask_end=round(draw.uniform(0.4, 1.0), 2),
        patience=round(draw.uniform(0.0, 1.2), 2),
        unknown=int(draw.integers(1, 11)),
        bid_power=round(math.exp(draw.uniform(math.log(0.3), math.log(4.0))), 2),
        bid_most=float(draw.choice([0.3, 0.6, 0.8, 1.0])),
    )
    now = RuleConstants()
    picked = {f.name: getattr(other if draw.random() < 0.5 else now, f.name) for f in fields(RuleConstants)}
    return RuleConstants(**picked)


def scores(executor: NamedExecutor, seed: int, indices: Sequence[int], who: Sequence[RuleConstants]) -> np.ndarray:
    """Mean score of the seats of each world.  # (candidates, worlds), not a number where a world failed"""
    tasks = [WorldTask(FIELDS[i % len(FIELDS)], seed, i, "each-level", 50, None) for i in indices]
    played = play_all(executor, play_rules, [(task, c) for c in who for task in tasks], 600.0, quiet=False)
    means = [math.nan if seats is None else float(np.mean([s.score for s in seats])) for seats in played]
    return np.array(means).reshape(len(who), len(tasks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=1248, help="worlds to play in all")
    parser.add_argument(
        "--first", type=int, default=8, help="worlds each candidate plays in the first stage, 2 or more"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parallelism", default="loky")
    options = parser.parse_args()
    first: int = options.first
    if first < len(FIELDS):
        parser.error(f"--first {first} must be at least {len(FIELDS)}: a world of each field")
    # n candidates play `first` worlds, n/3 as many more, n/9 twice as many more: n · first · (1 + 1/3 + 2/9) in all
    count = max(9, round(options.worlds / (first * (1 + 1 / 3 + 2 / 9))))
    draw = rng(options.seed, "rules search")
    who = [RuleConstants(), *(drawn(draw) for _ in range(count - 1))]
    seed, played, total = task_seed(options.seed, "rules search worlds"), np.zeros((count, 0)), 0
    with make_executor(options.parallelism) as executor:
        for stage in range(STAGES):
            begin, more = played.shape[1], first if stage < 2 else 2 * first
            new = scores(executor, seed, range(begin, begin + more), who)
            total += new.size
            played = np.concatenate([played, new], 1)
            gain = played - played[0]
            mean = np.nanmean(gain, 1)
            order = sorted(range(len(who)), key=lambda i: -mean[i])
            print(f"stage {stage + 1}: {len(who)} candidates, {played.shape[1]} worlds each, {total} played in all")
            for i in order[:6]:
                by_field = " ".join(
                    f"{field} {np.nanmean(gain[i, k :: len(FIELDS)]):+.3f}" for k, field in enumerate(FIELDS)
                )
                changed = {k: v for k, v in asdict(who[i]).items() if v != getattr(RuleConstants(), k)}
                error = np.nanstd(gain[i]) / math.sqrt(gain.shape[1])
                print(f"  {mean[i]:+.3f} ± {error:.3f}  {by_field}  {changed or 'the present constants'}", flush=True)
            stay = [0, *[i for i in order if i != 0][: max(1, len(who) // 3)]]
            who, played = [who[i] for i in stay], played[stay]


if __name__ == "__main__":
    main()
