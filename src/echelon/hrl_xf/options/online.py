"""Options of `echelon hrl online`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.hrl_xf.options.checks import at_least_one, not_negative, positive
from echelon.hrl_xf.options.playing import PlayingOptions

Reward = Literal["profit", "noise"]
LEVELS = ("l2", "l3", "l4")


@dataclass(frozen=True)
class OnlineOptions(PlayingOptions):
    """Improve trained layers by playing: PPO in the simulator, first L4 alone, then all layers with small steps.

    `echelon hrl online --init training_runs/first --output-dir training_runs/online --rounds 100`

    Each round plays whole worlds with draws from the layers and then updates them. The same command on the same
    directory resumes after the last finished round. What wins on the validation worlds is in the directory as
    l2_ppo, l3_ppo, l4_ppo: `echelon hrl compete --agent LitaAgentHRL:training_runs/online` plays with it.
    """

    init: str = "cloned"
    """a training's folder whose layers to start from; or what comes with the package: cloned (the clones of an expert),
    played (what PPO made of them), bundled (those with habits); l1: an untrained L3, which plays exactly as L1 does,
    with cloned L2 and L4"""
    output_dir: Path = Path("training_runs/online")
    """weights, checkpoints, metrics.jsonl and tb/ go here"""
    rounds: int = 100
    """rounds in all, those before a resume included"""
    field: str = "league"
    """who plays in the other seats: league, champions, or names and groups as in `compete --against`; several with a +
    take turns from configuration to configuration"""
    configurations: int = 12
    """world configurations in a round"""
    group: int = 4
    """plays of each configuration, with other draws: their mean return is the baseline of each"""
    past: float = 0.1
    """share of the rivals' seats that past versions of our own hold"""
    past_every: int = 10
    """rounds between past versions that are kept as opponents"""
    critic_rounds: int = 1
    """rounds at the start in which only the critic learns"""
    l4_rounds: int = 5
    """rounds after them in which L4 learns alone (stage A); then all of --levels learn (stage B)"""
    levels: str = "l2,l3,l4"
    """layers that learn in stage B"""
    critic: Path | None = None
    """an offline critic (critic.safetensors of `hrl train --l3-awr`) to start from; a new one if not given"""
    l2_lr: float = 1e-4
    """learning rate of L2"""
    l3_lr: float = 2e-4
    """learning rate of L3"""
    l4_lr: float = 2e-4
    """learning rate of L4"""
    critic_lr: float = 1e-3
    """learning rate of the critic"""
    final_lr_share: float = 0.2
    """learning rates of the layers fall linearly to this share of what they were, at --rounds"""
    average: Annotated[float, tyro.conf.arg(name="weight-average")] = 0.8
    """the layers that are validated and saved are a running mean over rounds, each round keeps this share of it;
    0: the last ones as they are"""
    epochs: int = 3
    """passes over a round's decisions in one update; fewer if --kl-stop is reached"""
    critic_epochs: int = 4
    """passes over a round's moments when the critic learns"""
    minibatch: int = 4096
    """decisions in a step of the optimiser"""
    clip: float = 0.2
    """PPO's bound on the probability ratio"""
    kl_stop: float = 0.02
    """no further epoch once the policy has moved this far in a round"""
    gae_lambda: float = 0.95
    """trace decay from moment to moment (a dawn, a call): 1 counts what was earned to the end of the game"""
    entropy: float = 0.002
    """weight of the entropy bonus of L3"""
    kl_weight: float = 0.02
    """how much a decision is charged for being more probable than in the layers it started from, in standard
    deviations of the advantage per nat; falls linearly to 0 at --rounds"""
    l2_deviation: float = 0.2
    """standard deviation of L2's draws at the start, in its inner units (5 pieces; 10 % of the price)"""
    l4_deviation: float = 0.3
    """standard deviation of the draws of L4's scores at the start"""
    reward: Reward = "profit"
    """noise: a control; random numbers instead of what was earned, from which nothing can be learnt"""

    validate_every: int = 10
    """rounds between validations; 0: none"""
    validation_worlds: int = 16
    """configurations of each field in a validation; they never occur in training"""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "rounds", "configurations", "group", "epochs", "critic_epochs", "minibatch", "past_every")
        not_negative(self, "critic_rounds", "l4_rounds", "entropy", "kl_weight")
        positive(self, "l2_lr", "l3_lr", "l4_lr", "critic_lr", "clip", "kl_stop")
        if not 0 <= self.past <= 1 or not 0 <= self.gae_lambda <= 1:
            raise ValueError(f"--past {self.past} and --gae-lambda {self.gae_lambda} must be in 0..1")
        if not 0 < self.final_lr_share <= 1 or not 0 <= self.average < 1:
            raise ValueError(
                f"--final-lr-share {self.final_lr_share} must be above 0 and at most 1, and "
                f"--weight-average {self.average} 0 or more and less than 1"
            )
        unknown = [level for level in self.learning if level not in LEVELS]
        if unknown or not self.learning:
            raise ValueError(f"--levels {self.levels} must name some of {', '.join(LEVELS)}")

    @property
    def learning(self) -> tuple[str, ...]:
        """The layers that learn in stage B."""
        return tuple(level.strip() for level in self.levels.split(",") if level.strip())

    @property
    def worlds(self) -> int:
        """Worlds in a round."""
        return self.configurations * self.group
