"""The shapes of the networks: from an environment and the options, kept in every checkpoint."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, get_type_hints

import msgspec
import torch
from torch import Tensor
from torch.nn import functional

from echelon.envs.entities import Sets
from echelon.envs.vector import BoxActions, DiscreteActions, EnvSpec
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.networks.entities import SetEncoder


@dataclass(frozen=True)
class Sizes:
    """Everything a network's parameters depend on."""

    agents: int
    obs: int
    state: int
    actions: int
    """choices of a discrete action, or numbers of a continuous one"""
    continuous: bool
    team_skills: int
    agent_skills: int
    hidden: int
    encoder_layers: int
    decoder_layers: int
    heads: int
    recurrent: bool
    critic_sees_skills: bool
    state_noise: bool
    ids: int = 0
    """numbers that tell which agent an observation is of: one for each agent, or none"""
    own_critic: bool = False
    """the critic values each agent by what it sees itself: IPPO"""
    transformer: bool = False
    """actions are chosen one after the other by a transformer: MAT"""
    observation_sets: Sets = ()
    state_sets: Sets = ()
    entity_width: int = 1
    """numbers that a set of entities becomes"""

    @property
    def skilled(self) -> bool:
        """Without skills there is neither a coordinator nor a discriminator."""
        return self.agent_skills > 0

    @classmethod
    def of(cls, spec: EnvSpec, config: HMASDConfig) -> Sizes:
        """The shapes for one environment."""
        skilled = config.skilled
        continuous = isinstance(spec.actions, BoxActions)
        return cls(
            agents=spec.num_agents,
            obs=spec.obs_dim,
            state=spec.state_dim,
            actions=spec.actions.width,
            continuous=continuous,
            team_skills=config.team_skills if skilled else 0,
            agent_skills=config.agent_skills if skilled else 0,
            hidden=config.hidden,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            heads=config.heads,
            recurrent=config.recurrent and config.algorithm != "mat",
            critic_sees_skills=config.critic_sees_skills and skilled,
            state_noise=config.state_noise and continuous,
            ids=spec.num_agents if config.agent_ids else 0,
            own_critic=config.algorithm == "ippo",
            transformer=config.algorithm == "mat",
            observation_sets=spec.observation_sets,
            state_sets=spec.state_sets,
            entity_width=config.entity_width if spec.observation_sets or spec.state_sets else 1,
        )

    def observation_encoder(self) -> SetEncoder:
        """A new encoder of observations."""
        return SetEncoder(self.obs, self.observation_sets, self.entity_width)

    def state_encoder(self) -> SetEncoder:
        """A new encoder of states."""
        return SetEncoder(self.state, self.state_sets, self.entity_width)

    def with_ids(self, observation: Tensor) -> Tensor:
        """Observations (..., n, F), each with the one-hot number of its agent behind it, if agents have one."""
        if not self.ids:
            return observation
        ids = torch.eye(self.ids, dtype=observation.dtype, device=observation.device)
        return torch.cat([observation, ids.expand(*observation.shape[:-1], self.ids)], -1)

    def check_same(self, saved: Sizes, source: str) -> None:
        """Refuse weights of other shapes, and say what differs."""
        pairs = [(f.name, getattr(saved, f.name), getattr(self, f.name)) for f in fields(self)]
        different = [f"{name} {theirs} (here {ours})" for name, theirs, ours in pairs if theirs != ours]
        if different:
            raise ValueError(
                f"{source} was trained with other shapes: {', '.join(different)}; "
                "use the environment and network options it was trained with"
            )


def one_hot(skills: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """Skills as one-hot numbers, (...) -> (..., count)."""
    return functional.one_hot(skills, count).to(dtype)


def spec_to_json(spec: EnvSpec) -> dict[str, Any]:
    """An environment's outside as plain values, so that an agent can be loaded without making the environment."""
    return {**asdict(spec), "discrete": isinstance(spec.actions, DiscreteActions)}


def spec_from_json(content: dict[str, Any]) -> EnvSpec:
    """What `spec_to_json` gave."""
    kinds = get_type_hints(EnvSpec) | {"actions": DiscreteActions if content["discrete"] else BoxActions}
    return EnvSpec(**{n: msgspec.convert(value, kinds[n]) for n, value in content.items() if n != "discrete"})
