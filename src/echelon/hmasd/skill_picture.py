"""A picture that shows whether skills differ: where each leads, how each acts, and when the coordinator chooses it.

For the first two every agent follows skills drawn at random, so that a skill is seen from everywhere and not only where
the coordinator likes it; for the third the coordinator chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from echelon.envs.random_streams import WorldStreams, world_seeds
from echelon.envs.vector import VectorEnv
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.worlds import make_worlds
from echelon.runtime.arrays import Array
from echelon.runtime.seeding import task_seed

WORLDS, STEPS, CELLS = 64, 100, 8


@dataclass(frozen=True)
class SkillUse:
    """What was seen of every skill."""

    visits: Array | None  # (n_z, CELLS, CELLS): share of the skill's steps, y then x; None where places are unknown
    actions: Array  # (n_z, A): share of each discrete action, or mean of each continuous number
    chosen: Array  # (n_Z, n, n_z): share of each skill in the coordinator's choices for an agent, by team skill
    teams: Array  # (n_Z,): share of each team skill
    action_names: tuple[str, ...]


def watch_skills(agent: HMASDAgent, seed: int) -> SkillUse:
    """Play episodes with random skills, then with the coordinator's."""
    if not agent.sizes.skilled:
        raise ValueError(f"this agent has no skills to draw (it was trained with --algorithm {agent.config.algorithm})")
    with make_worlds(agent.config, WORLDS, task_seed(seed, "skills", "worlds")) as env:
        visits, actions = _with_random_skills(agent, env, seed)
        chosen, teams = _with_chosen_skills(agent, env, seed)
        names = env.spec.action_names or tuple(str(i) for i in range(agent.sizes.actions))
    return SkillUse(visits, actions, chosen, teams, names)


def _with_random_skills(agent: HMASDAgent, env: VectorEnv, seed: int) -> tuple[Array | None, Array]:
    """Visits in the later half of each segment, when a skill has had time to lead somewhere, and actions."""
    sizes, k = agent.sizes, min(agent.config.k, STEPS // 2)
    place = env.spec.position
    visits = np.zeros((sizes.agent_skills, CELLS, CELLS))
    actions, steps = np.zeros((sizes.agent_skills, sizes.actions)), np.zeros(sizes.agent_skills)
    streams = WorldStreams(world_seeds(task_seed(seed, "skills", "drawn"), WORLDS))
    seen = env.reset()
    agent.reset(WORLDS, task_seed(seed, "skills", "choices"))
    for step in range(STEPS):
        if step % k == 0:
            own = streams.integers(slice(None), sizes.agents, sizes.agent_skills)
            team = streams.integers(slice(None), 1, sizes.team_skills)
            skills = np.concatenate([team, own], 1)
        done = agent.act_on(seen, skills)
        which = own.reshape(-1)
        np.add.at(steps, which, 1)
        if sizes.continuous:
            np.add.at(actions, which, done.reshape(-1, sizes.actions))
        else:
            np.add.at(actions, (which, done.reshape(-1)), 1)
        now = env.step(done)
        if place is not None and step % k >= k // 2:
            column, row = (_cells(now.final_observation[..., i], place.low).reshape(-1) for i in (place.x, place.y))
            np.add.at(visits, (which, row, column), 1)
        agent.restart(now.done)
        seen = now
    return _shares(visits) if place is not None else None, actions / np.maximum(steps, 1)[:, None]


def _with_chosen_skills(agent: HMASDAgent, env: VectorEnv, seed: int) -> tuple[Array, Array]:
    sizes = agent.sizes
    chosen = np.zeros((sizes.team_skills, sizes.agents, sizes.agent_skills))
    seen = env.reset()
    agent.reset(WORLDS, task_seed(seed, "skills", "coordinator"))
    for _ in range(STEPS):
        now = env.step(agent.act_on(seen))
        for i in range(sizes.agents):
            np.add.at(chosen[:, i], (agent.skills[:, 0], agent.skills[:, 1 + i]), 1)
        agent.restart(now.done)
        seen = now
    teams = chosen[:, 0].sum(1)
    return chosen / np.maximum(chosen.sum(2, keepdims=True), 1), teams / teams.sum()


def _cells(values: Array, low: float) -> Array:
    return np.clip(((values - low) / (1.0 - low) * CELLS).astype(np.int64), 0, CELLS - 1)


def _shares(counts: Array) -> Array:
    shares: Array = counts / np.maximum(counts.sum((1, 2), keepdims=True), 1)
    return shares


def draw_skills(agent: HMASDAgent, use: SkillUse) -> Figure:
    """One column per skill: visits above actions; below them the coordinator's choices."""
    skills, rows = len(use.actions), 2 if use.visits is None else 3
    figure = Figure(figsize=(1.7 * max(skills, 4) + 0.6, 2.1 * rows + 0.6), layout="constrained")
    grid: Any = figure.add_gridspec(rows, skills)
    discrete = not agent.sizes.continuous
    for z in range(skills):
        if use.visits is not None:
            axes = figure.add_subplot(grid[0, z])
            axes.imshow(use.visits[z], cmap="viridis", vmin=0, origin="upper" if discrete else "lower")
            axes.set(xticks=[], yticks=[], title=f"skill {z}")
        axes = figure.add_subplot(grid[rows - 2, z])
        axes.bar(use.action_names, use.actions[z], color="#2a6f97")
        axes.set_ylim((0, 1) if discrete else (-1, 1))
        axes.tick_params(axis="x", rotation=90, labelsize=7)
        axes.tick_params(axis="y", labelleft=z == 0, labelsize=7)
        if z == 0:
            axes.set_ylabel("share of actions" if discrete else "mean action", fontsize=8)
    axes = figure.add_subplot(grid[rows - 1, :])
    teams, agents = use.chosen.shape[:2]
    axes.imshow(use.chosen.reshape(teams * agents, skills), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    labels = [f"Z={i} ({share:.0%}), agent {a}" for i, share in enumerate(use.teams) for a in range(agents)]
    axes.set_yticks(range(teams * agents), labels, fontsize=7)
    axes.set_xticks(range(skills))
    axes.set_xlabel("share of each agent's skill in the coordinator's choices, by team skill Z")
    figure.suptitle(
        "where each skill leads, how it acts, and when it is chosen" if rows == 3 else "skills", fontsize=10
    )
    return figure
