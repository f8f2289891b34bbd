"""All that decides what a training run computes. Imports neither torch nor numpy.

Words: a *team skill* Z and an *agent skill* z^i are integers; a *segment* is the steps for which one choice of skills
holds; a *round* is what is collected between two updates; 1 sample is 1 joint environment step.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from echelon.onpolicy.options import Discount, PPOOptions

Algorithm = Literal["hmasd", "mappo", "ippo", "mat"]


@dataclass(frozen=True)
class HMASDConfig:
    """Hyper-parameters; the defaults are the user's UAV configuration with intrinsic rewards that suit any reward."""

    env: str = "uav1"
    """uav1, uav2, uav2-relay, alice_and_bob, overcooked:cramped_room (or :asymmetric_advantages, :coordination_ring,
    :forced_coordination, :counter_circuit), simple_spread and simple_speaker_listener (of mpe2, as arrays), or
    package.module:factory of a PettingZoo ParallelEnv; the built-in ones have presets, any other starts from the
    options shown here"""
    env_options: tuple[str, ...] = ()
    """options of the environment, each as name=value"""
    algorithm: Algorithm = "hmasd"
    """hmasd, or for comparison in the same code, without skills: mappo (a critic of the state), ippo (a critic of what
    each agent sees), mat (multi-agent transformer: agents choose one after the other, each seeing the earlier ones)"""
    seed: int = 0
    """root of all random streams"""
    total_steps: int = 4_000_000
    """joint environment steps to train for"""
    envs: int = 32
    """worlds that run side by side"""
    samples_per_update: int = 1024
    """joint environment steps in a round; an equal share from every world"""
    final_samples_per_update: int | None = None
    """size of the last round, reached linearly; not given: all rounds have one size"""
    collectors: int = 1
    """groups the worlds are divided into; each collects on its own, in the same shapes here or on any number of
    workers, so that the result is the same to the bit; another number of groups is another run"""
    group_gradients: bool = False
    """differentiate every group by itself and add the gradients: what --learners spreads over processes"""

    k: int = 10
    """steps a choice of skills lasts"""
    team_skills: int = 3
    """number of team skills, n_Z"""
    agent_skills: int = 3
    """number of skills of each agent, n_z"""
    lambda_h: float = 0.001
    """weight of the entropy of skills"""
    lambda_l: float = 0.01
    """weight of the entropy of actions"""
    lambda_e: float = 1.0
    """weight of the environment's reward in the low-level reward"""
    lambda_team: float = 0.01
    """lambda_D: weight of the team discriminator in the low-level reward"""
    lambda_agent: float = 0.02
    """lambda_d: weight of the individual discriminator in the low-level reward"""
    relative_intrinsic: bool = True
    """both weights are shares of the environment's part: they are multiplied by the mean of |lambda_e r| over the run's
    steps so far (at least .01), so that the same numbers suit rewards of any size"""
    skill_baseline: bool = True
    """add log n_Z and log n_z to the discriminators' terms, so that the bonus of a blind guess is 0; without it every
    step has a cost, and agents that can die learn to die"""
    death_ends_return: bool = False
    """an agent's return ends with its death; otherwise the team's later rewards count for it as for the living"""
    critic_sees_skills: bool = False
    """the low-level critic sees all agents' skills and has an output for each agent"""
    advantage_std_floor: float = 1e-5
    """least deviation that high-level advantages are divided by; .1 keeps rounds without reward quiet"""
    discoverer_std_floor: float = 1e-5
    """the same of low-level advantages; 1 lets skills diverge slowly, while the discriminators are still weak"""

    state_noise: bool = False
    """the noise of continuous actions depends on what an agent sees; else it is one learnt deviation for each number"""

    agent_ids: bool | None = None
    """the actor and the coordinator see which agent an observation is of; not given: where agents cannot be
    distinguished by what they see when an episode begins"""

    hidden: int = 64
    """width of all networks"""
    encoder_layers: int = 3
    """blocks of the coordinator's encoder"""
    decoder_layers: int = 3
    """blocks of the coordinator's decoder"""
    entity_width: int = 16
    """numbers that each set of entities without a place becomes, where an environment declares some"""
    heads: int = 8
    """attention heads"""
    recurrent: bool = True
    """GRUs in actor and critic"""
    recurrent_chunk: int = 8
    """steps that gradients flow back through time"""

    lr: float = 1e-4
    """learning rate of all networks"""
    final_lr: float | None = None
    """learning rate at the end, reached linearly; not given: constant"""
    epochs: int = 15
    """passes over a round in one update"""
    discriminator_epochs: int = 15
    """passes of the discriminators over a round, after the policies' update"""
    minibatches: int = 1
    """optimiser steps in one epoch, of policies and discriminators"""
    accumulate: int = 1
    """parts a mini-batch is evaluated in, to save memory; the gradient stays that of the whole"""
    clip: float = 0.2
    """PPO's bound of the ratio"""
    gamma: float = 0.99
    """discount of one environment step"""
    coordinator_discount: Discount = "per_step"
    """per_step: a choice of skills that lasts j steps is discounted by gamma ** j; per_decision: by gamma, however long
    it lasts, as code built on MAPPO does"""
    gae_lambda: float = 0.95
    """trace decay of one decision"""
    value_coef: float = 1.0
    """weight of the value loss"""
    max_grad_norm: float = 0.5
    """longer gradients are shortened to this"""
    kl_stop: float | None = None
    """no further epoch once the mean KL divergence of one exceeds this"""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        counts = ("total_steps", "envs", "samples_per_update", "collectors", "k", "team_skills", "agent_skills")
        layers = ("hidden", "encoder_layers", "decoder_layers", "heads", "entity_width")
        for name in (*counts, *layers, "recurrent_chunk", "discriminator_epochs"):
            if self.__dict__[name] < 1:
                raise ValueError(f"{name}={self.__dict__[name]} must be at least 1")
        for name in ("samples_per_update", "final_samples_per_update"):
            if (size := self.__dict__[name]) is not None:
                check_round(name, size, self.envs)
        if self.envs % self.collectors:
            fitting = [c for c in range(1, self.envs + 1) if self.envs % c == 0]
            raise ValueError(f"collectors={self.collectors} does not divide envs={self.envs}; use one of {fitting}")
        if self.hidden % self.heads:
            raise ValueError(f"hidden={self.hidden} is not a multiple of heads={self.heads}; change one of them")
        for name in ("lambda_h", "lambda_l", "lambda_e", "lambda_team", "lambda_agent"):
            if self.__dict__[name] < 0:
                raise ValueError(f"{name}={self.__dict__[name]} must not be negative")
        for name in ("lr", "advantage_std_floor", "discoverer_std_floor"):
            if not self.__dict__[name] > 0:
                raise ValueError(f"{name}={self.__dict__[name]} must be positive")
        if self.final_lr is not None and not self.final_lr > 0:
            raise ValueError(f"final_lr={self.final_lr} must be positive; leave it out to keep lr={self.lr}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed={self.seed} must be in 0 .. 2**63 - 1")
        self.environment_options()
        self.coordinator_ppo(), self.discoverer_ppo()

    @property
    def skilled(self) -> bool:
        """There is a coordinator, and skills."""
        return self.algorithm == "hmasd"

    @property
    def learning_groups(self) -> int:
        """Groups of worlds that are differentiated apart."""
        return self.collectors if self.group_gradients else 1

    def round_size(self, env_steps: int) -> int:
        """Samples of the round that starts after `env_steps`: constant, or linear in progress."""
        if self.final_samples_per_update is None:
            return self.samples_per_update
        wanted = self._interpolated(self.samples_per_update, self.final_samples_per_update, env_steps)
        return max(round(wanted / self.envs), 1) * self.envs

    @property
    def played_k(self) -> int:
        """Steps a choice of skills really lasts: a segment never outlives its round, so in use it does not either."""
        longest = max(self.samples_per_update, self.final_samples_per_update or 0) // self.envs
        return min(self.k, longest)

    def learning_rate(self, env_steps: int) -> float:
        """Of the update after `env_steps`: constant, or linear in progress."""
        return self.lr if self.final_lr is None else self._interpolated(self.lr, self.final_lr, env_steps)

    def _interpolated(self, first: float, last: float, env_steps: int) -> float:
        return first + min(env_steps / self.total_steps, 1.0) * (last - first)

    @property
    def follows_progress(self) -> bool:
        """Something depends on how much of `total_steps` is done."""
        return self.final_samples_per_update is not None or self.final_lr is not None

    def coordinator_ppo(self) -> PPOOptions:
        """PPO of the high level."""
        return replace(self._ppo(self.lambda_h, self.advantage_std_floor), discount=self.coordinator_discount)

    def discoverer_ppo(self) -> PPOOptions:
        """PPO of the low level."""
        return self._ppo(self.lambda_l, self.discoverer_std_floor)

    def _ppo(self, entropy_coef: float, advantage_std_floor: float) -> PPOOptions:
        return PPOOptions(
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            epochs=self.epochs,
            minibatches=self.minibatches,
            accumulate=self.accumulate,
            clip=self.clip,
            value_clip=self.clip,
            value_coef=self.value_coef,
            entropy_coef=entropy_coef,
            max_grad_norm=self.max_grad_norm,
            kl_stop=self.kl_stop,
            advantage_std_floor=advantage_std_floor,
            unit_reduction="sum",
        )

    def environment_options(self) -> dict[str, Any]:
        """`env_options` as keyword arguments; values are JSON where they can be, else text."""
        options: dict[str, Any] = {}
        for text in self.env_options:
            name, equals, value = text.partition("=")
            if not equals or not name.isidentifier():
                raise ValueError(f"env option {text!r} must be name=value, like max_steps=200")
            try:
                options[name] = json.loads(value)
            except ValueError:
                options[name] = {"True": True, "False": False, "None": None}.get(value, value)
        return options

    def to_json(self) -> dict[str, Any]:
        """Plain values, for config.json."""
        return {**asdict(self), "env_options": list(self.env_options)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> HMASDConfig:
        """What `to_json` gave; an unknown name is an error."""
        unknown = sorted(set(content) - set(cls.__dataclass_fields__))
        if unknown:
            raise ValueError(f"unknown options {', '.join(unknown)}: saved by another version of echelon")
        return cls(**{**content, "env_options": tuple(content.get("env_options", ()))})


def check_round(name: str, size: int, envs: int) -> None:
    """A round takes an equal share from every world."""
    if size < envs or size % envs:
        near = [m for m in (size // envs * envs, (size // envs + 1) * envs) if m >= envs]
        raise ValueError(f"{name}={size} is not a multiple of envs={envs}; use {' or '.join(map(str, near))}")
