"""Small worlds with known optima, and small policies to learn them; shared by the tests of the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from echelon.onpolicy.batch import Arrays
from echelon.onpolicy.chunks import Chunks
from echelon.onpolicy.distributions import MaskedCategorical
from echelon.onpolicy.loop import LevelLearner, TrainingLoop
from echelon.onpolicy.loss import Evaluation
from echelon.onpolicy.optimizer import JointAdam
from echelon.onpolicy.options import PPOOptions
from echelon.onpolicy.ppo import PPOLearner, PPOStats
from echelon.onpolicy.recurrent import run_gru
from tests.onpolicy.step_collector import Choice, Seen, Step, StepCollector

Array = NDArray[Any]


class ToyWorlds:
    """B worlds with a clock, a hidden number each, and automatic reset. A subclass says what is seen and earned."""

    agents, actions, width, limit = 1, 2, 1, 1
    truncates = False
    """At the limit an episode is truncated, not terminated."""

    def __init__(self, num_envs: int, seed: int = 0) -> None:
        self.num_envs = num_envs
        self.rng = np.random.default_rng(seed)
        self.clock = np.zeros(num_envs, np.int64)
        self.secret = np.zeros(num_envs, np.int64)
        self.returns: list[float] = []
        self._return = np.zeros(num_envs)

    def look(self) -> Array:
        """(B, n, F)"""
        return np.ones((self.num_envs, self.agents, self.width), np.float32)

    def earn(self, actions: Array) -> Array:
        """(B,); may change `secret`."""
        raise NotImplementedError

    def reset(self) -> Seen:
        self._start(np.ones(self.num_envs, bool))
        return self._seen()

    def _start(self, rows: Array) -> None:
        self.clock[rows] = 0
        self.secret[rows] = self.rng.integers(0, 2, int(rows.sum()))
        self._return[rows] = 0.0

    def _seen(self) -> Seen:
        look = self.look()
        return Seen(look, look.reshape(self.num_envs, -1))

    def step(self, actions: Array, /) -> Step:
        reward = self.earn(actions).astype(np.float32)
        self._return += reward
        self.clock += 1
        late = self.clock >= self.limit
        never = np.zeros_like(late)
        final = self._seen()
        if late.any():
            self.returns += self._return[late].tolist()
            self._start(late)
        return Step(
            self._seen(),
            final,
            reward,
            terminated=never if self.truncates else late,
            truncated=late if self.truncates else never,
        )

    def state_dict(self) -> dict[str, Array]:
        stream = np.frombuffer(json.dumps(self.rng.bit_generator.state).encode(), np.uint8).copy()
        return {"clock": self.clock.copy(), "secret": self.secret.copy(), "return": self._return.copy(), "rng": stream}

    def load_state_dict(self, state: Mapping[str, Array], /) -> Seen:
        self.clock, self.secret = state["clock"].copy(), state["secret"].copy()
        self._return = state["return"].copy()
        self.rng.bit_generator.state = json.loads(state["rng"].tobytes())
        return self._seen()


class Bandit(ToyWorlds):
    """Four arms; the third pays 1, the others at most .3."""

    actions = 4

    def earn(self, actions: Array) -> Array:
        return np.array([0.1, 0.2, 1.0, 0.3])[actions[:, 0]]


class MatrixGame(ToyWorlds):
    """Two agents, two steps. The first agent's first choice picks the game: 0 pays 3 whatever is done, 1 pays 8 if both
    then choose 1, 1 if one does, 0 if none does. Best return 8; at random the first game looks better (3 > 2.5).
    """

    agents, width, limit = 2, 5, 2

    def look(self) -> Array:
        seen = np.zeros((self.num_envs, 2, 5), np.float32)
        seen[:, 0, 0], seen[:, 1, 1] = 1.0, 1.0
        place = np.where(self.clock == 0, 0, 1 + self.secret)
        seen[np.arange(self.num_envs), :, 2 + place] = 1.0
        return seen

    def earn(self, actions: Array) -> Array:
        pay = np.where(self.secret == 0, 3.0, np.array([0.0, 1.0, 8.0])[actions.sum(1)])
        reward = np.where(self.clock == 1, pay, 0.0)
        self.secret = np.where(self.clock == 0, actions[:, 0], self.secret)
        return reward


class Recall(ToyWorlds):
    """A sign is shown at the first step only; naming it at the last step, five later, pays 1, else 0."""

    width, limit = 2, 6

    def look(self) -> Array:
        seen = np.zeros((self.num_envs, 1, 2), np.float32)
        seen[:, 0, 0] = np.where(self.clock == 0, 2.0 * self.secret - 1.0, 0.0)
        seen[:, 0, 1] = self.clock / self.limit
        return seen

    def earn(self, actions: Array) -> Array:
        return np.where(self.clock == self.limit - 1, actions[:, 0] == self.secret, 0.0)


class Endless(ToyWorlds):
    """Pays 1 at every step for ever, and is cut after 5 steps; with gamma .9 the value is 10 everywhere."""

    limit, truncates = 5, True

    def earn(self, actions: Array) -> Array:
        return np.ones(self.num_envs)


def tower(inputs: int, hidden: int, outputs: int, gain: float) -> nn.Sequential:
    """Two layers, small last one."""
    last = nn.Linear(hidden, outputs)
    nn.init.orthogonal_(last.weight, gain)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), last)


class FeedForward(nn.Module):
    """Each agent sees its own observation; the critic too."""

    def __init__(self, width: int, actions: int, hidden: int = 32) -> None:
        super().__init__()
        self.actor, self.critic = tower(width, hidden, actions, 0.01), tower(width, hidden, 1, 1.0)

    def evaluate(self, chunks: Chunks) -> Evaluation:
        seen = chunks.observation["observation"]  # (L, M, n, F)
        choice = MaskedCategorical(self.actor(seen), chunks.mask.get("action"))
        return Evaluation(choice.log_prob(chunks.action["action"]), choice.entropy(), self.critic(seen).squeeze(-1))

    def initial_state(self, columns: int) -> Arrays:
        return {}

    def act(self, observation: Arrays, state: Arrays, generator: torch.Generator) -> Choice:
        seen = torch.from_numpy(observation["observation"])
        choice = MaskedCategorical(self.actor(seen))
        chosen = choice.sample(generator)
        stored = chosen.numpy()
        value = self.critic(seen).squeeze(-1)
        return Choice(stored, {"action": stored}, choice.log_prob(chosen).numpy(), value.numpy())

    def value(self, observation: Arrays, state: Arrays) -> Array:
        out: Array = self.critic(torch.from_numpy(observation["observation"])).squeeze(-1).numpy()
        return out


class Recurrent(nn.Module):
    """A GRU for the actor and one for the critic; states (B, n, H)."""

    def __init__(self, width: int, actions: int, hidden: int = 32) -> None:
        super().__init__()
        self.hidden = hidden
        self.actor_gru, self.critic_gru = nn.GRU(width, hidden), nn.GRU(width, hidden)
        self.actor, self.critic = nn.Linear(hidden, actions), nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.actor.weight, 0.01)

    def _run(
        self, seen: Tensor, state: Mapping[str, Tensor], reset: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        length, columns, agents = seen.shape[:3]  # (L, M, n, F) -> (L, M*n, F)
        flat, again = seen.flatten(1, 2), reset.repeat_interleave(agents, 1)
        outputs, last = {}, {}
        for name, gru in (("actor", self.actor_gru), ("critic", self.critic_gru)):
            y, h = run_gru(gru, flat, state[name].flatten(0, 1), again)
            outputs[name] = y.reshape(length, columns, agents, -1)
            last[name] = h.reshape(columns, agents, -1)
        return self.actor(outputs["actor"]), self.critic(outputs["critic"]).squeeze(-1), last

    def evaluate(self, chunks: Chunks) -> Evaluation:
        logits, value, _ = self._run(chunks.observation["observation"], chunks.state, chunks.reset)
        choice = MaskedCategorical(logits)
        return Evaluation(choice.log_prob(chunks.action["action"]), choice.entropy(), value)

    def initial_state(self, columns: int) -> Arrays:
        return {name: np.zeros((columns, 1, self.hidden), np.float32) for name in ("actor", "critic")}

    def _one(self, observation: Arrays, state: Arrays) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        seen = torch.from_numpy(observation["observation"]).unsqueeze(0)
        before = {name: torch.from_numpy(array) for name, array in state.items()}
        logits, value, last = self._run(seen, before, torch.zeros(1, seen.shape[1], dtype=torch.bool))
        return logits[0], value[0], last

    def act(self, observation: Arrays, state: Arrays, generator: torch.Generator) -> Choice:
        logits, value, last = self._one(observation, state)
        choice = MaskedCategorical(logits)
        chosen = choice.sample(generator)
        after = {name: tensor.numpy() for name, tensor in last.items()}
        stored = chosen.numpy()
        return Choice(stored, {"action": stored}, choice.log_prob(chosen).numpy(), value.numpy(), after)

    def value(self, observation: Arrays, state: Arrays) -> Array:
        out: Array = self._one(observation, state)[1].numpy()
        return out


def make_loop(
    worlds: ToyWorlds,
    options: PPOOptions,
    steps: int,
    round_steps: int,
    *,
    recurrent: bool = False,
    chunk: int = 1,
    lr: float = 3e-3,
    seed: int = 0,
) -> tuple[TrainingLoop[dict[str, PPOStats]], FeedForward | Recurrent]:
    """A whole small training run."""
    torch.manual_seed(seed)
    policy = (Recurrent if recurrent else FeedForward)(worlds.width, worlds.actions)
    learner = LevelLearner({"agent": PPOLearner(policy, [JointAdam(policy.parameters(), lr)], options, seed)})
    collector = StepCollector(worlds, policy, lambda: learner.version, seed, chunk)
    return TrainingLoop(collector, learner, steps, round_steps), policy
