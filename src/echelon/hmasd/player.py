"""The acting side of an agent: it sees what an environment gives and answers what it takes, with its skills' clock.

Everything here is what training feeds and does, for every space; a loaded agent needs neither environment nor trainer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from echelon.envs.random_streams import WorldStreams, world_seeds
from echelon.envs.vector import EnvSpec, Observed
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.rollout import ActionMap, draw_actions
from echelon.hmasd.networks.networks import HMASDNetworks
from echelon.hmasd.networks.sizes import Sizes, spec_from_json, spec_to_json
from echelon.onpolicy.aligned import as_tensor
from echelon.onpolicy.ppo import part_of_state
from echelon.runtime.arrays import Array
from echelon.runtime.checkpoint import latest, load_checkpoint
from echelon.runtime.seeding import task_seed


class Player:
    """Networks for one environment, with skills and memories of the episodes it is playing."""

    def __init__(self, config: HMASDConfig, spec: EnvSpec) -> None:
        self.config, self.spec = config, spec
        self.sizes = Sizes.of(spec, config)
        self.networks = HMASDNetworks.seeded(self.sizes, task_seed(config.seed, "weights"))
        self.actions = ActionMap(spec)
        self._worlds, self._greedy = 0, False
        self._streams = WorldStreams([0])

    def reset(self, worlds: int = 1, seed: int | Sequence[int] | None = None, greedy: bool = False) -> None:
        """Begin an episode in each of `worlds`: zero memories, new skills at the next step.

        Skills and actions are drawn, as in training, each world from its own stream; or the most probable ones taken.
        A seed, or one for each world, starts the streams again; without one they continue (the first time from seed 0),
        so that episodes differ.
        """
        if seed is not None or worlds != self._worlds:
            self._streams = WorldStreams(world_seeds(0 if seed is None else seed, worlds))
        self._worlds, self._greedy = worlds, greedy
        self._memory = self.networks.discoverer.initial_memory(worlds)
        self._age = np.zeros(worlds, np.int64)
        self.skills = np.zeros((worlds, self.sizes.agents + 1), np.int64)

    @property
    def due(self) -> Array:
        """The worlds in which the next step begins with a choice of skills."""
        return np.flatnonzero(self._age == 0)

    def act(self, observations: Mapping[Any, Any] | Array, state: Any = None, action_mask: Any = None) -> Any:
        """Actions for one step, in the form the observations came.

        A dict by agent holds what a ParallelEnv gives, of any space, and the answer is what it takes; `action_mask` is
        then a dict of masks (those inside observations are found), `state` what `env.state()` gives. An array (n, F)
        or (B, n, F) holds what a `VectorEnv` gives, and so does the answer. Skills are chosen every k steps since
        `reset()`. The state can be left out where it follows from the observations.
        """
        if isinstance(observations, Mapping):
            return self._act_by_name(observations, state, action_mask)
        given = np.asarray(observations)
        if given.dtype.kind != "f" and not all(form.raw for form in self.spec.forms):
            raise ValueError(
                f"an array of {given.dtype}: arrays hold numbers as training sees them (float32); give the "
                "environment's own observations as a dict by agent"
            )
        single = given.ndim == 2
        seen = given.astype(np.float32)[None] if single else given.astype(np.float32)
        whole = None if state is None else np.asarray(state, np.float32).reshape(len(seen), -1)
        mask = None if action_mask is None else np.asarray(action_mask, bool).reshape(len(seen), self.sizes.agents, -1)
        actions = self._act_checked(seen, whole, mask)
        return actions[0] if single else actions

    def _act_by_name(self, observations: Mapping[Any, Any], state: Any, action_mask: Any) -> dict[Any, Any]:
        spec = self.spec
        named = {str(agent): value for agent, value in observations.items()}
        unknown = sorted(set(named) - set(spec.agents))
        if unknown:
            raise ValueError(f"observations of unknown agents {unknown}; this agent plays {list(spec.agents)}")
        masks = spec.masks_from(named, action_mask)
        seen = spec.joint_observation(named)[None]
        whole = None if state is None else spec.state_from(seen[0], state)[None]
        actions = self._act_checked(seen, whole, spec.joint_mask(masks)[None] if masks else None)[0]
        place = {agent: i for i, agent in enumerate(spec.agents)}
        rows = {agent: place[str(agent)] for agent in observations}
        return {agent: spec.does[i].to_env(actions[i]) if spec.does else actions[i] for agent, i in rows.items()}

    def _act_checked(self, seen: Array, state: Array | None, mask: Array | None) -> Array:
        if self._worlds == 0:
            self.reset(len(seen))
        whole = self.spec.state_from(seen) if state is None else state
        self._check(seen, whole)
        return self.act_on(Observed(seen, whole, np.ones(seen.shape[:2], bool), mask))

    @torch.inference_mode()
    def act_on(self, seen: Observed, skills: Array | None = None) -> Array:
        """Actions (B, n, ...) for all worlds; the skill clock ticks once.

        `skills` (B, n + 1) are followed instead of the coordinator's choice, to see what a skill does.
        """
        state, observation = as_tensor(seen.state), as_tensor(seen.observation)
        if skills is not None:
            self.skills = np.asarray(skills, np.int64)
        elif self.networks.coordinator is not None:
            due = self.due
            if len(due):
                drawn = None
                if not self._greedy:
                    drawn = torch.from_numpy(self._streams.uniform32(due, self.sizes.agents + 1))
                chosen, _, _ = self.networks.coordinator.act(state[due], observation[due], drawn)
                self.skills[due] = chosen.numpy()
        mask = self.actions.mask(seen)
        _, action, _, _, self._memory = self.networks.discoverer.act(
            state,
            observation,
            torch.from_numpy(self.skills) if self.sizes.skilled else None,
            self._memory,
            None if self._greedy else draw_actions(self._streams, self.sizes),
            None if mask is None else torch.from_numpy(np.ascontiguousarray(mask)),
        )
        self._age = (self._age + 1) % self.config.played_k
        return self.actions.to_env(action)

    @torch.inference_mode()
    def restart(self, ended: Array) -> None:
        """New episodes in the worlds where `ended` (B,) is set."""
        self._age[ended] = 0
        for memory in self._memory.values():
            memory[torch.from_numpy(ended)] = 0.0

    def _check(self, seen: Array, state: Array) -> None:
        want = (self._worlds, self.sizes.agents, self.sizes.obs)
        if seen.shape != want or state.shape != (self._worlds, self.sizes.state):
            raise ValueError(
                f"observations {seen.shape} and state {state.shape} must be {want} and "
                f"{(self._worlds, self.sizes.state)}; call reset(worlds) when the number of worlds changes"
            )

    def header(self) -> dict[str, Any]:
        """What a checkpoint's config.json holds: options and environment, enough to build the agent again."""
        return {"format_version": 1, "options": self.config.to_json(), "spec": spec_to_json(self.spec)}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """An agent from a checkpoint, or from a run's last one, ready to act; needs neither environment nor trainer."""
        saved = load_checkpoint(find_checkpoint(Path(path)))
        if not isinstance(saved.config, dict) or "spec" not in saved.config or "agent" not in saved.tensors:
            raise ValueError(f"{os.fspath(path)} is a checkpoint, but not one of HMASD: it contains no agent")
        agent = cls(HMASDConfig.from_json(saved.config["options"]), spec_from_json(saved.config["spec"]))
        agent.load_weights(saved.tensors["agent"])
        return agent

    def weights(self) -> dict[str, Tensor]:
        """All weights, flat, as copies."""
        return {name: t.detach().clone() for name, t in self.networks.state_dict().items()}

    def load_weights(self, state: Mapping[str, Tensor]) -> None:
        """Weights from the state of a training agent."""
        places = {
            "coordinator.policy.": "coordinator.",
            "discoverer.policy.": "discoverer.",
            "discriminators.team.": "team.",
            "discriminators.individual.": "individual.",
        }
        parts = {own: part_of_state(state, saved) for saved, own in places.items()}
        self.networks.load_state_dict({own + name: t for own, part in parts.items() for name, t in part.items()})


def find_checkpoint(path: Path) -> Path:
    """The checkpoint itself, or the last one of a run's directory."""
    if (path / "state.json").is_file():
        return path
    for folder in (path / "checkpoints", path):
        if folder.is_dir() and (found := latest(folder)) is not None:
            return found
    raise ValueError(f"{path} is neither a checkpoint nor a run with one; give checkpoints/hmasd_sync_<steps>")
