"""A small run: everything HMASD has, in a fraction of a second."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.rollout import SkillCollector
from echelon.hmasd.worlds import make_worlds

SMALL = HMASDConfig(
    env="alice_and_bob",
    env_options=("max_steps=17",),
    total_steps=400,
    envs=4,
    samples_per_update=80,
    k=5,
    team_skills=2,
    agent_skills=3,
    hidden=16,
    encoder_layers=1,
    decoder_layers=2,
    heads=2,
    recurrent_chunk=6,
    lr=1e-3,
    epochs=2,
    discriminator_epochs=2,
    lambda_team=0.1,
    lambda_agent=0.5,
    relative_intrinsic=False,
)
SKY = replace(SMALL, env="uav2", env_options=("max_steps=13", "num_users=6", "num_uavs=3"))


def small(base: HMASDConfig = SMALL, **changes: Any) -> HMASDConfig:
    return replace(base, **changes)


def make(config: HMASDConfig = SMALL, seed: int = 0) -> tuple[HMASDAgent, SkillCollector]:
    """An agent with lively weights (as after some training) and its worlds."""
    env = make_worlds(config, config.envs, seed)
    agent = HMASDAgent(config, env.spec)
    enliven(agent)
    return agent, SkillCollector.of(config, agent.networks, env, range(config.envs), lambda: agent.version)


def enliven(agent: HMASDAgent) -> None:
    """Fresh output layers are nearly zero, so that everything would be nearly uniform: make choices matter."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in agent.networks.parameters():
            if parameter.dim() == 2:
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
