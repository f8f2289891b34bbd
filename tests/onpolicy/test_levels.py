"""Two levels with different clocks in one rollout: an autoregressive choice of n + 1 parts over a recurrent policy.

The shape of a skill hierarchy without its meaning: every k steps, at episode ends and at the round's end, a director
picks one number for the team and one for each agent, each with a baseline of its own; a player acts at every step,
knowing its number. Episodes of the worlds have different lengths, so the director's decisions drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from echelon.onpolicy.batch import Rollout
from echelon.onpolicy.builder import RolloutBuilder
from echelon.onpolicy.chunks import Chunks, to_chunks
from echelon.onpolicy.distributions import Distribution, MaskedCategorical, Product, SquashedNormal
from echelon.onpolicy.loop import LevelLearner, TrainingLoop
from echelon.onpolicy.loss import Evaluation
from echelon.onpolicy.optimizer import JointAdam
from echelon.onpolicy.options import PPOOptions
from echelon.onpolicy.ppo import PPOLearner
from echelon.onpolicy.recurrent import run_gru
from echelon.runtime.arrays import Array
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric

AGENTS, SKILLS, WIDTH, HIDDEN, EVERY, SLOTS, WORLDS = 2, 3, 4, 8, 3, 10, 5
PARTS = ("team", *(f"agent{i}" for i in range(AGENTS)))


class Director(nn.Module):
    """Parts in a chain: each sees the state and the parts before it."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(WIDTH + SKILLS * i, SKILLS) for i in range(len(PARTS)))
        self.critic = nn.Linear(WIDTH, len(PARTS))

    def choice(self, state: Tensor) -> Product:
        def head(layer: nn.Module) -> Any:
            def given(earlier: Mapping[str, Tensor]) -> Distribution:
                known = [nn.functional.one_hot(part, SKILLS).to(state.dtype) for part in earlier.values()]
                return MaskedCategorical(layer(torch.cat([state, *known], -1)))

            return given

        return Product({name: head(layer) for name, layer in zip(PARTS, self.heads, strict=True)})

    def evaluate(self, chunks: Chunks) -> Evaluation:
        state = chunks.observation["state"]
        joint = self.choice(state)
        log_prob = torch.stack(list(joint.log_prob_parts(chunks.action).values()), -1)
        entropy = torch.stack(list(joint.entropy_parts(chunks.action).values()), -1)
        return Evaluation(log_prob, entropy, self.critic(state))


class Player(nn.Module):
    """A GRU actor shared by the agents, continuous actions; the critic sees the state and the team's number."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.mean = nn.GRU(WIDTH + SKILLS, HIDDEN), nn.Linear(HIDDEN, 2)
        self.log_std = nn.Parameter(torch.zeros(2))
        self.critic = nn.Linear(WIDTH + 1, 1)

    def run(self, seen: Tensor, skill: Tensor, memory: Tensor, reset: Tensor) -> tuple[SquashedNormal, Tensor]:
        known = torch.cat([seen, nn.functional.one_hot(skill, SKILLS).to(seen.dtype)], -1)  # (L, M, n, F)
        again = reset.repeat_interleave(AGENTS, 1)
        y, h = run_gru(self.gru, known.flatten(1, 2), memory.flatten(0, 1), again)
        mean = self.mean(y.reshape(len(y), -1, AGENTS, HIDDEN))
        return SquashedNormal(mean, self.log_std), h.reshape(-1, AGENTS, HIDDEN)

    def evaluate(self, chunks: Chunks) -> Evaluation:
        o = chunks.observation
        choice, _ = self.run(o["seen"], o["skill"], chunks.state["memory"], chunks.reset)
        value = self.critic(torch.cat([o["state"], o["team"].unsqueeze(-1).float()], -1)).expand(-1, -1, AGENTS)
        return Evaluation(choice.log_prob(chunks.action["move"]), choice.entropy(), value)


class Hierarchy:
    """A collector with two clocks; worlds are random walks whose episodes end after 4 + b steps."""

    def __init__(self, director: Director, player: Player) -> None:
        self.director, self.player = director, player
        self.generator, self.rng = torch.Generator().manual_seed(0), np.random.default_rng(0)
        self.state = self.rng.normal(size=(WORLDS, WIDTH)).astype(np.float32)
        self.memory = np.zeros((WORLDS, AGENTS, HIDDEN), np.float32)
        self.clock, self.limit = np.zeros(WORLDS, np.int64), 4 + np.arange(WORLDS)

    @torch.no_grad()
    def collect(self, version: int, steps: int) -> Rollout:
        high = RolloutBuilder(SLOTS, WORLDS, len(PARTS))
        low = RolloutBuilder(SLOTS, WORLDS, AGENTS, chunk=4)
        skills = np.zeros((WORLDS, len(PARTS)), np.int64)
        age = np.zeros(WORLDS, np.int64)
        for t in range(SLOTS):
            due = np.flatnonzero(age == 0)
            if len(due):
                skills[due] = self._decide(high, version, due)
            ended = self._play(low, version, skills)
            high.earn(self.state[:, 0])
            age += 1
            stop = np.flatnonzero(ended | (age == EVERY) | (t == SLOTS - 1))
            if len(stop):
                following = self.director.critic(torch.from_numpy(self.state)).numpy()
                high.close(False, ended[stop], following[stop], columns=stop)
            age[stop] = 0
            self._restart(ended)
        return {"high": high.take(), "low": low.take(self._value(skills))}

    def _decide(self, high: RolloutBuilder, version: int, due: Array) -> Array:
        state = torch.from_numpy(self.state[due])
        joint = self.director.choice(state)
        drawn = joint.sample(self.generator)
        log_prob = torch.stack(list(joint.log_prob_parts(drawn).values()), -1).numpy()
        stored = {name: part.numpy() for name, part in drawn.items()}
        high.open(
            version, {"state": self.state[due]}, stored, log_prob, self.director.critic(state).numpy(), columns=due
        )
        return np.stack(list(stored.values()), -1)

    def _value(self, skills: Array) -> Array:
        seen = np.concatenate([self.state, skills[:, :1].astype(np.float32)], -1)
        out: Array = self.player.critic(torch.from_numpy(seen)).numpy()
        return out

    def _play(self, low: RolloutBuilder, version: int, skills: Array) -> Array:
        before, reset, value = self.memory, self.clock == 0, self._value(skills)
        seen = np.repeat(self.state[:, None], AGENTS, 1)
        observation = {"seen": seen, "skill": skills[:, 1:], "state": self.state, "team": skills[:, 0]}
        inputs = (torch.from_numpy(seen)[None], torch.from_numpy(skills[None, :, 1:]), torch.from_numpy(before))
        choice, memory = self.player.run(*inputs, torch.from_numpy(reset[None]))
        drawn = choice.sample(self.generator)[0]
        one = SquashedNormal(choice.mean[0], self.player.log_std)
        self.state = (0.5 * self.state + self.rng.normal(size=self.state.shape)).astype(np.float32)
        self.clock += 1
        ended = self.clock >= self.limit
        low.store(
            version,
            observation,
            {"move": drawn.numpy()},
            one.log_prob(drawn).numpy(),
            value,
            self.state[:, 0],
            False,
            ended,
            np.where(ended[:, None], self._value(skills), np.nan),
            state={"memory": before},
            reset=reset,
        )
        self.memory = memory.numpy().copy()
        return ended

    def _restart(self, ended: Array) -> None:
        self.state[ended], self.memory[ended], self.clock[ended] = 0.0, 0.0, 0

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        raise NotImplementedError


@pytest.fixture
def hierarchy() -> Hierarchy:
    torch.manual_seed(0)
    return Hierarchy(Director(), Player())


def test_before_the_first_update_every_ratio_of_both_levels_is_one(hierarchy: Hierarchy) -> None:
    policies: dict[str, Director | Player] = {"high": hierarchy.director, "low": hierarchy.player}
    hierarchy.collect(0, 50)
    for level, batch in hierarchy.collect(0, 50).items():
        chunks = to_chunks(batch, batch.reward, batch.reward)
        with torch.no_grad():
            now = policies[level].evaluate(chunks)
        assert chunks.acts.sum() == batch.acts.sum() > 0
        assert_equal_but_for_rounding(now.log_prob[chunks.acts], chunks.log_prob[chunks.acts])
        assert_equal_but_for_rounding(now.value[chunks.acts], chunks.value[chunks.acts])


def test_every_step_belongs_to_exactly_one_decision_of_each_level(hierarchy: Hierarchy) -> None:
    rollout = hierarchy.collect(0, 50)
    high, low = rollout["high"], rollout["low"]
    assert (high.span.sum(0) == SLOTS).all()
    assert (low.span == 1).all()
    np.testing.assert_allclose(high.reward.sum(0)[:, 0], low.reward.sum(0)[:, 0], rtol=1e-5)
    # world 0, episodes of 4: 3 + 1, 3 + 1, then 2 steps to the round's end; world 4, episodes of 8: 3 + 3 + 2, 2
    assert high.span[:6, 0].tolist() == [3, 1, 3, 1, 2, 0]
    assert high.span[:6, 4].tolist() == [3, 3, 2, 2, 0, 0]
    assert high.done[:5, 0, 0].tolist() == [False, True, False, True, False]
    assert high.valid.sum(0).tolist() == [5, 4, 4, 4, 4]


def test_both_levels_train_under_one_version_and_all_their_parameters_move(hierarchy: Hierarchy) -> None:
    policies: dict[str, Director | Player] = {"high": hierarchy.director, "low": hierarchy.player}
    options = {"high": PPOOptions(epochs=2, unit_reduction="sum"), "low": PPOOptions(epochs=2, minibatches=2)}
    levels = {n: PPOLearner(p, [JointAdam(p.parameters(), 1e-3)], options[n]) for n, p in policies.items()}
    before = {n: {k: v.clone() for k, v in p.state_dict().items()} for n, p in policies.items()}
    for done in TrainingLoop(hierarchy, LevelLearner(levels), 150, 50):
        assert done.stats["high"].ratio_error < 1e-5
        assert done.stats["low"].ratio_error < 1e-4
        assert len(done.stats["high"].unit_entropy) == 1 + AGENTS
        assert done.stats["high"].decisions < done.stats["low"].decisions == WORLDS * SLOTS
    assert {learner.version for learner in levels.values()} == {3}
    for n, p in policies.items():
        assert [k for k, v in p.state_dict().items() if torch.equal(v, before[n][k])] == []


def test_a_frozen_level_learns_nothing_and_keeps_the_version(hierarchy: Hierarchy) -> None:
    policies: dict[str, Director | Player] = {"high": hierarchy.director, "low": hierarchy.player}
    levels = {n: PPOLearner(p, [JointAdam(p.parameters(), 1e-3)], PPOOptions(epochs=1)) for n, p in policies.items()}
    learner = LevelLearner(levels)
    learner.frozen = frozenset({"high"})
    before = {n: {k: v.clone() for k, v in p.state_dict().items()} for n, p in policies.items()}
    loop = TrainingLoop(hierarchy, learner, 100, 50)
    assert list(next(iter(loop)).stats) == ["low"]
    moved = {n for n, p in policies.items() if any(not torch.equal(v, before[n][k]) for k, v in p.state_dict().items())}
    assert moved == {"low"}
    assert {level.version for level in levels.values()} == {1}
    learner.frozen = frozenset({"nobody"})
    with pytest.raises(ValueError, match=r"frozen names \['nobody'\]"):
        next(iter(loop))
