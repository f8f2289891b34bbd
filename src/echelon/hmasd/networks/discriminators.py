"""The discriminators: they guess skills from what they led to."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.hmasd.networks.attention import HIDDEN_GAIN, OUTPUT_GAIN, orthogonal
from echelon.hmasd.networks.sizes import Sizes
from echelon.onpolicy.distributions import log_softmax
from echelon.onpolicy.written.chain import Chain


def _classifier(inputs: int, width: int, classes: int) -> nn.Sequential:
    return nn.Sequential(
        orthogonal(nn.Linear(inputs, width), HIDDEN_GAIN),
        nn.ReLU(),
        orthogonal(nn.Linear(width, width), HIDDEN_GAIN),
        nn.ReLU(),
        orthogonal(nn.Linear(width, classes), OUTPUT_GAIN),
    )


class TeamDiscriminator(nn.Module):
    """q_D(Z | s): which team skill led to this state."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.layers = _classifier(sizes.state, sizes.hidden, sizes.team_skills)
        self.logits = Chain(self.layers)

    def forward(self, state: Tensor) -> Tensor:  # (..., S) -> (..., n_Z)
        """Log-probabilities of every team skill."""
        return log_softmax(self.layers(state))


class IndividualDiscriminator(nn.Module):
    """q_d(z^i | o^i, Z): which skill of the agent led to this observation, given the team's."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.team_skills = sizes.team_skills
        self.layers = _classifier(sizes.obs + sizes.team_skills, sizes.hidden, sizes.agent_skills)
        self.logits = Chain(self.layers)

    def forward(self, observation: Tensor, team_skill: Tensor) -> Tensor:  # (..., F), (...) -> (..., n_z)
        """Log-probabilities of every agent skill."""
        return log_softmax(self.layers(self.joined(observation, team_skill)))

    def joined(self, observation: Tensor, team_skill: Tensor) -> Tensor:
        """Both inputs as one, (..., F + n_Z): to be made once where the same data is looked at many times."""
        known = functional.one_hot(team_skill, self.team_skills).to(observation.dtype)
        return torch.cat([observation, known], -1)


def uniform_log(skills: int) -> float:
    """log of the uniform prior over skills."""
    return -math.log(skills)
