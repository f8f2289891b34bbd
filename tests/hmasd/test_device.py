"""Updates on another device: a copy learns there, acting stays here. No machine of ours has a second device."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from echelon.cli import main
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.learning.rewards import Discriminators, SkillData
from echelon.hmasd.learning.rollout import COORDINATOR
from echelon.onpolicy.chunks import to_chunks
from echelon.onpolicy.loss import ppo_loss
from tests.hmasd.small import SKY, SMALL, make, small

KINDS = [
    small(config, recurrent=False)  # a GRU looks at numbers (where an episode starts), which that device has not
    for config in (SMALL, SKY, small(critic_sees_skills=True, agent_ids=True), small(SKY, state_noise=True))
]


@pytest.mark.parametrize("config", KINDS)
def test_no_operation_of_an_update_mixes_devices(config: HMASDConfig) -> None:
    """On torch's device without numbers, shapes alone are computed: a constant that stayed behind is an error."""
    agent, collector = make(config)
    rollout, nowhere = collector.collect(0, 80), torch.device("meta")
    networks = copy.deepcopy(agent.networks).to(nowhere)
    for level, batch in rollout.items():
        chunks = to_chunks(batch, batch.reward, batch.reward).to(nowhere)
        policy = networks.coordinator if level == COORDINATOR else networks.discoverer
        assert policy is not None
        now = policy.evaluate(chunks)
        loss = ppo_loss(
            now, chunks.log_prob, chunks.value, chunks.advantage, chunks.target, chunks.acts,
            config.coordinator_ppo(), None, chunks.earns,
        )  # fmt: skip
        loss.total.backward()  # type: ignore[no-untyped-call]
        assert now.log_prob.device == loss.total.device == nowhere


def test_a_copy_that_learns_elsewhere_comes_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a copy forced on the one device there is: the same weights as without, and acting has them."""
    here, collector = make()
    away, _ = make()
    assert here.learner.networks is here.networks
    monkeypatch.setattr(HMASDAgent, "_is_away", True)
    assert away.learner.networks is not away.networks
    rollout = collector.collect(0, 80)
    for agent in (here, away):
        agent.update(rollout)
    for one, other in zip(here.networks.parameters(), away.networks.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    again, _ = make()
    again.load_state_dict(away.state_dict())
    for one, other in zip(again.networks.parameters(), away.networks.parameters(), strict=True):
        assert torch.equal(one, other)


def test_skill_data_goes_where_the_discriminators_are() -> None:
    agent, collector = make()
    found = agent.learner.discriminators
    assert isinstance(found, Discriminators)
    batch = collector.collect(0, 80)["discoverer"]
    assert SkillData.of(batch, found.device).state.device == found.device


def test_a_device_that_is_not_there_is_one_clear_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not torch.cuda.is_available():
        command = ["--env", "alice_and_bob", "--device", "cuda", "--output-dir", str(tmp_path / "run")]
        assert main(["hmasd", "train", *command]) == 2
        assert "--device 'cuda' is not a device that torch can use here" in capsys.readouterr().err
        assert not (tmp_path / "run").exists()
