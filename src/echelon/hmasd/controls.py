"""Does the hierarchy matter? The trained policy with skills that the coordinator did not choose, for comparison.

- *random*: skills drawn evenly, every k steps, as often as the coordinator would choose.
- *fixed*: one joint choice (Z, z^1..z^n) for all worlds and all steps, the best there is. It is chosen in episodes of
  its own, so that its result in the test episodes is not the luck of having been the best there.

If either does as well as the coordinator, what was learnt are skills, or one good behaviour, but not when to use which.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from echelon.envs.random_streams import WorldStreams, world_seeds
from echelon.envs.vector import Observed
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.evaluation import Evaluation, episode_worlds, play
from echelon.runtime.arrays import Array
from echelon.runtime.seeding import rng, task_seed

WORLDS_AT_ONCE = 1024


@dataclass(frozen=True)
class FixedChoice:
    """The best of the joint choices that were tried."""

    skills: tuple[int, ...]
    """Z, z^1, ..., z^n"""
    tried: int
    possible: int
    result: Evaluation
    """in the test episodes"""

    def __str__(self) -> str:
        which = f"all {self.possible}" if self.tried == self.possible else f"{self.tried} of {self.possible}, drawn"
        team, *own = self.skills
        return f"{self.result} (Z={team}, z={' '.join(map(str, own))}; best of {which})"


def random_skills(agent: HMASDAgent, episodes: int, seed: int, greedy: bool = False) -> Evaluation:
    """The episodes of `evaluate` with skills drawn evenly whenever a choice is due."""
    counts = skill_counts(agent)
    streams = WorldStreams(world_seeds(task_seed(seed, "evaluation", "random skills"), episodes))

    def act(seen: Observed) -> Array:
        due, skills = agent.due, agent.skills.copy()
        if len(due):
            skills[due] = (streams.uniform32(due, len(counts)) * counts).astype(np.int64)
        return agent.act_on(seen, skills)

    with episode_worlds(agent.config, episodes, seed) as env:
        agent.reset(episodes, task_seed(seed, "evaluation", "choices"), greedy)
        return play(env, act, agent.restart)


def fixed_skills(agent: HMASDAgent, choices: Array, episodes: int, seed: int, greedy: bool = False) -> Evaluation:
    """The episodes of `evaluate` with given skills: those of choice c, (C, n + 1), in worlds c E .. (c + 1) E - 1.

    Every choice meets the same worlds and the same random numbers.
    """
    worlds = np.repeat(choices, episodes, 0)
    with episode_worlds(agent.config, episodes, seed, len(choices)) as env:
        streams = world_seeds(task_seed(seed, "evaluation", "choices"), episodes) * len(choices)
        agent.reset(len(worlds), streams, greedy)
        return play(env, lambda seen: agent.act_on(seen, worlds), agent.restart)


def best_fixed(
    agent: HMASDAgent, episodes: int, seed: int, greedy: bool = False, most: int = 256, tries: int = 32
) -> FixedChoice:
    """Try joint choices in `tries` episodes each, all or `most` of them drawn at random, and test the best one."""
    choices, possible = some_choices(agent, most, seed)
    figures = []
    for part in np.array_split(choices, math.ceil(len(choices) * tries / WORLDS_AT_ONCE)):
        found = fixed_skills(agent, part, tries, task_seed(seed, "evaluation", "fixed skills"), greedy)
        judged = found.returns if found.success is None else found.success
        figures.append(np.asarray(judged, np.float64).reshape(len(part), tries).mean(1))
    best = choices[int(np.concatenate(figures).argmax())]
    result = fixed_skills(agent, best[None], episodes, seed, greedy)
    return FixedChoice(tuple(best.tolist()), len(choices), possible, result)


def some_choices(agent: HMASDAgent, most: int, seed: int) -> tuple[Array, int]:
    """Joint choices (C, n + 1), all of them if they are at most `most`, else `most` different ones; and how many
    exist."""
    if most < 1:
        raise ValueError(f"most={most} must be at least 1: without a choice there is nothing to fix")
    counts = skill_counts(agent)
    possible = math.prod(counts.tolist())
    if possible <= most:
        return np.array(list(itertools.product(*map(range, counts.tolist())))), possible
    drawn = dict.fromkeys(itertools.islice(_draws(counts, seed), 100 * most))
    return np.array(list(itertools.islice(drawn, most))), possible


def _draws(counts: Array, seed: int) -> Iterator[tuple[int, ...]]:
    source = rng(seed, "evaluation", "choices of skills")
    while True:
        yield tuple(source.integers(0, counts).tolist())


def skill_counts(agent: HMASDAgent) -> Array:
    """How many values Z, z^1, ..., z^n have."""
    if not agent.sizes.skilled:
        raise ValueError(f"{agent.config.algorithm} has no skills to choose; leave --skills out")
    return np.array([agent.sizes.team_skills, *[agent.sizes.agent_skills] * agent.sizes.agents])
