"""Training in a user's own environment loop, with the names of the synchronous training guide.

    agent = HMASDAgent(config, spec_of(envs[0]))
    agent.start_collection([env.reset(seed=i)[0] for i, env in enumerate(envs)])
    while agent.samples_learnt < config.total_steps:
        while not agent.should_sync_update():
            for i, (env, actions) in enumerate(zip(envs, agent.next_actions())):
                step = env.step(actions)
                agent.store_transition(i, *step, first=None if env.agents else env.reset()[0])
        agent.sync_update()

The agent itself keeps what its decisions were made with (skills, log-probabilities, values, memories), so what is
stored is of the current version by construction; the round is cut, bootstrapped and learnt from as in `echelon hmasd
train`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from echelon.envs.foreign.pushed import ByAgent, PushedWorlds
from echelon.envs.foreign.vector import TeamReward
from echelon.envs.random_streams import world_seeds
from echelon.envs.vector import EnvSpec
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.rollout import SkillCollector
from echelon.hmasd.networks.networks import HMASDNetworks
from echelon.onpolicy.batch import Rollout
from echelon.runtime.seeding import task_seed


class OwnLoop:
    """Worlds that the user steps, and the round that grows from them."""

    def __init__(
        self,
        config: HMASDConfig,
        spec: EnvSpec,
        networks: HMASDNetworks,
        version_of: Callable[[], int],
        observations: Sequence[ByAgent],
        states: Sequence[Any] | None = None,
        action_masks: Sequence[ByAgent] | None = None,
        team_reward: TeamReward = "mean",
    ) -> None:
        if len(observations) != config.envs:
            raise ValueError(f"observations of {len(observations)} worlds, but envs={config.envs}; give those of each")
        self.worlds = PushedWorlds(spec, config.envs, team_reward)
        for i, seen in enumerate(observations):
            state = None if states is None else states[i]
            self.worlds.start(i, seen, state, None if action_masks is None else action_masks[i])
        seeds = world_seeds(task_seed(config.seed, "choices"), config.envs)
        self.collector = SkillCollector.of(config, networks, self.worlds, seeds, version_of)
        self._first: dict[int, tuple[ByAgent, Any, ByAgent | None]] = {}
        self._steps_left: int | None = None
        self._asked = False

    @property
    def full(self) -> bool:
        """The round has all its steps."""
        return self._steps_left == 0

    def actions(self, version: int, samples: int) -> list[dict[str, Any]]:
        """For every world the actions of its living agents, by name; starts a round of `samples` if none runs."""
        if self._asked:
            waiting = self.worlds.waits_for()
            raise ValueError(f"worlds {waiting} have not stored the last step; call store_transition() for each")
        if self.full:
            raise ValueError("the round is complete; call sync_update() before choosing more actions")
        if self._steps_left is None:
            self._steps_left = self.collector.begin_round(version, samples)
        self._asked = True
        spec, chosen = self.worlds.spec, self.collector.choose()
        alive = self.worlds.reset().alive
        return [
            {
                agent: spec.does[i].to_env(chosen[world, i]) if spec.does else chosen[world, i]
                for i, agent in enumerate(spec.agents)
                if alive[world, i]
            }
            for world in range(self.worlds.num_envs)
        ]

    def store(
        self,
        world: int,
        result: tuple[ByAgent, Any, Any, Any, ByAgent | None],
        state: Any,
        masks: ByAgent | None,
        first: tuple[ByAgent | None, Any, ByAgent | None],
    ) -> bool:
        """What one world gave; False if nothing was asked of it."""
        if not self._asked or self._steps_left is None:
            return False
        over = self.worlds.put(world, *result, state=state, masks=masks)
        if over:
            begins, its_state, its_masks = first
            if not isinstance(begins, Mapping):
                raise ValueError(f"the episode of world {world} is over; give first=, what its next one begins with")
            self._first[world] = (begins, its_state, its_masks)
        if self.worlds.complete:
            self.collector.take(self.worlds.joint_step(self._first))
            self._first.clear()
            self._steps_left -= 1
            self._asked = False
        return True

    def take_round(self) -> Rollout:
        """The complete round; the next `actions` start another."""
        if not self.full:
            raise ValueError("the round is not complete; store more transitions")
        self._steps_left = None
        return self.collector.end_round()
