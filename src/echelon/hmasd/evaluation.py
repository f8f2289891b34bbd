"""Test episodes: own worlds, own random streams, own copy of the weights; training is not affected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from echelon.envs.random_streams import WorldStreams, world_seeds
from echelon.envs.vector import BoxActions, Observed, VectorEnv
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.episodes import Episodes
from echelon.hmasd.learning.rollout import ActionMap
from echelon.hmasd.networks.sizes import Sizes, spec_from_json
from echelon.hmasd.worlds import make_worlds
from echelon.runtime.arrays import Array
from echelon.runtime.seeding import task_seed


class Evaluation(Episodes):
    """Results of test episodes."""

    @property
    def reward_per_step(self) -> float:
        """Mean reward of one step."""
        return float(self.returns.sum() / self.lengths.sum())

    @property
    def success_rate(self) -> float | None:
        """Share of episodes that reached the goal, where the environment knows one."""
        return None if self.success is None else float(self.success.mean())

    def tags(self) -> dict[str, float]:
        """By their names in TensorBoard."""
        named = {
            "Eval/MeanReward": float(self.returns.mean()),
            "Eval/StdReward": float(self.returns.std()),
            "Eval/MinReward": float(self.returns.min()),
            "Eval/MaxReward": float(self.returns.max()),
            "Eval/RewardPerStep": self.reward_per_step,
        }
        if self.success_rate is not None:
            named["Eval/SuccessRate"] = self.success_rate
        return named | {f"Eval/Info/{name}": mean for name, mean in self.means().items()}

    def __str__(self) -> str:
        text = (
            f"{len(self.returns)} episodes: reward {self.returns.mean():.4g} ± {self.returns.std():.3g} "
            f"({self.returns.min():.4g} .. {self.returns.max():.4g}), {self.reward_per_step:.4g} per step"
        )
        return text if self.success_rate is None else f"{text}, success {100 * self.success_rate:.1f} %"


def evaluate(agent: HMASDAgent, episodes: int, seed: int, greedy: bool = False) -> Evaluation:
    """One episode in each of `episodes` worlds; it begins new episodes of the agent, so give it one of its own."""
    with episode_worlds(agent.config, episodes, seed) as env:
        agent.reset(episodes, task_seed(seed, "evaluation", "choices"), greedy)
        return play(env, agent.act_on, agent.restart)


def random_play(options: Mapping[str, Any], episodes: int, seed: int) -> Evaluation:
    """The same episodes with actions drawn evenly from those allowed: what an agent that learns must exceed."""
    config = HMASDConfig.from_json(dict(options))
    streams = WorldStreams(world_seeds(task_seed(seed, "evaluation", "random"), episodes))
    with episode_worlds(config, episodes, seed) as env:
        spec, allowed = env.spec, ActionMap(env.spec)

        def act(seen: Observed) -> Array:
            if isinstance(spec.actions, BoxActions):
                low, high = spec.actions.low_array, spec.actions.high_array
                drawn = streams.uniform(slice(None), low.size).reshape(episodes, *low.shape)
                return (low + drawn * (high - low)).astype(np.float32)
            mask = allowed.mask(seen)
            free = np.ones((episodes, spec.num_agents, spec.actions.width), bool) if mask is None else mask
            chances = streams.uniform(slice(None), free[0].size).reshape(free.shape)
            best: Array = np.where(free, chances, -1.0).argmax(-1)
            return best

        return play(env, act, lambda _: None)


def episode_worlds(config: HMASDConfig, episodes: int, seed: int, times: int = 1) -> VectorEnv:
    """Worlds of one episode each, or the same ones several times over."""
    seeds = world_seeds(task_seed(seed, "evaluation", "worlds"), episodes) * times
    return make_worlds(config, len(seeds), seeds)


def play(env: VectorEnv, act: Callable[[Observed], Array], restart: Callable[[Array], None]) -> Evaluation:
    """The first episode of each world that does not crash."""
    seen = env.reset()
    played: list[Episodes] = []
    order: list[int] = []
    running = np.ones(env.num_envs, bool)
    while running.any():
        now = env.step(act(seen))
        over = np.flatnonzero(running & now.done & ~now.dropped)  # a crashed world plays another episode
        if len(over):
            played.append(Episodes.of(now, over))
            order += over.tolist()
            running[over] = False
        if now.done.any():
            restart(now.done)
        seen = now
    found, by_world = Episodes.join(played), np.argsort(order)
    metrics = {name: told[by_world] for name, told in found.metrics.items()}
    return Evaluation(found.returns[by_world], found.lengths[by_world], metrics)


def evaluate_weights(
    header: Mapping[str, Any], weights: Mapping[str, Array], episodes: int, seed: int, greedy: bool
) -> Evaluation:
    """Evaluate a copy of an agent's weights; runs on a worker."""
    torch.set_num_threads(1)
    agent = HMASDAgent(HMASDConfig.from_json(header["options"]), spec_from_json(header["spec"]))
    agent.networks.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    return evaluate(agent, episodes, seed, greedy)


def use_env_options(agent: HMASDAgent, env_options: Sequence[str]) -> None:
    """Let an agent be tested in worlds with other options; it must see and do the same kinds of things there."""
    config = replace(agent.config, env_options=(*agent.config.env_options, *env_options))
    with make_worlds(config, 1) as env:
        Sizes.of(env.spec, config).check_same(agent.sizes, "the agent")
    agent.config = config
