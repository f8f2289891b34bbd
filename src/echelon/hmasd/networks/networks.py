"""The four networks of HMASD, with the names of the paper.

- `SkillCoordinator` chooses a team skill Z and a skill z^i for each agent, one after the other, each seeing the earlier
  ones. Acting is n + 1 rounds; learning is one teacher-forced pass over the stored choice.
- `SkillDiscoverer` is the policy of every agent given its skill, with a critic of the whole team.
- `TeamDiscriminator` and `IndividualDiscriminator` guess skills from what they led to.

Skills are stored as one array of n + 1 integers: Z, z^1, ..., z^n. B is worlds, M any batch, n agents, H the width.
Sampling takes random numbers as an argument: `uniform` in [0, 1) or `noise` ~ N(0, 1), one row per world, so that what
a world does depends on its own stream only. None is the greedy choice.
"""

from __future__ import annotations

import torch
from torch import nn

from echelon.hmasd.networks.coordinator import SkillCoordinator
from echelon.hmasd.networks.discoverer import SkillDiscoverer
from echelon.hmasd.networks.discriminators import IndividualDiscriminator, TeamDiscriminator
from echelon.hmasd.networks.sizes import Sizes
from echelon.hmasd.networks.transformer import TransformerPolicy


class HMASDNetworks(nn.Module):
    """All networks of one run; without skills only the low level: MAPPO's or IPPO's actor and critic, or MAT."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.discoverer: SkillDiscoverer | TransformerPolicy
        self.discoverer = TransformerPolicy(sizes) if sizes.transformer else SkillDiscoverer(sizes)
        self.coordinator = SkillCoordinator(sizes) if sizes.skilled else None
        self.team = TeamDiscriminator(sizes) if sizes.skilled else None
        self.individual = IndividualDiscriminator(sizes) if sizes.skilled else None

    @classmethod
    def seeded(cls, sizes: Sizes, seed: int) -> HMASDNetworks:
        """Fresh weights that depend on the seed alone; torch's global stream is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(sizes)
