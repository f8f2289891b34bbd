"""The discriminators: they guess skills from what they led to."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from echelon.hmasd.networks.attention import HIDDEN_GAIN, OUTPUT_GAIN, orthogonal
from echelon.hmasd.networks.sizes import Sizes, one_hot


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
        self.known = sizes.state_encoder()
        self.layers = _classifier(self.known.outputs, sizes.hidden, sizes.team_skills)

    def forward(self, state: Tensor) -> Tensor:  # (..., S) -> (..., n_Z)
        """Log-probabilities of every team skill."""
        return functional.log_softmax(self.layers(self.known(state)), -1)


class IndividualDiscriminator(nn.Module):
    """q_d(z^i | o^i, Z): which skill of the agent led to this observation, given the team's."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.team_skills = sizes.team_skills
        self.seen = sizes.observation_encoder()
        self.layers = _classifier(self.seen.outputs + sizes.team_skills, sizes.hidden, sizes.agent_skills)

    def forward(self, observation: Tensor, team_skill: Tensor) -> Tensor:  # (..., F), (...) -> (..., n_z)
        """Log-probabilities of every agent skill."""
        joined = torch.cat([self.seen(observation), one_hot(team_skill, self.team_skills, observation.dtype)], -1)
        return functional.log_softmax(self.layers(joined), -1)
