"""The online trainer on small real worlds: stages, resume, executors, past versions, validation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from echelon.hrl_xf.commands.online import run
from echelon.hrl_xf.online.collector import round_tasks
from echelon.hrl_xf.online.run import run_options, save
from echelon.hrl_xf.online.trainer import OnlineLearner, OnlineTraining, initial_layers
from echelon.hrl_xf.online.validation import gain, validation_tasks
from echelon.hrl_xf.online.worlds import PlayedSeat
from echelon.hrl_xf.training import HRLXFTrainer, TrainConfig
from echelon.runtime.execution.executors import make_executor
from echelon.runtime.metrics import read_metrics
from echelon.runtime.rundir import open_run
from tests.hrl_xf.online.examples import options

pytestmark = pytest.mark.numeric


def layers_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "latest").glob("*.safetensors")}


def test_a_run_stopped_after_a_round_and_resumed_equals_one_that_was_not(tmp_path: Path) -> None:
    run(options(tmp_path / "whole"))
    small = options(tmp_path / "stopped")
    with make_executor("serial") as executor:
        training = OnlineTraining(small, executor)
        folder = open_run(small.output_dir, run_options(small))
        next(iter(training.loop))
        save(training, folder)
    run(small)
    whole = layers_of(tmp_path / "whole")
    assert len(whole) == 3
    assert layers_of(tmp_path / "stopped") == whole


def test_two_workers_give_the_result_of_one_process(tmp_path: Path) -> None:
    run(options(tmp_path / "one", rounds=1))
    run(options(tmp_path / "two", rounds=1, parallelism="loky:2"))
    assert layers_of(tmp_path / "one") == layers_of(tmp_path / "two")


def test_stage_a_moves_l4_alone_and_stage_b_what_is_asked_for(tmp_path: Path) -> None:
    small = options(tmp_path, rounds=3, critic_rounds=1, l4_rounds=1, levels="l3,l4")
    learner = OnlineLearner(small)
    assert [sorted(learner.frozen(i)) for i in range(3)] == [["l2", "l3", "l4"], ["l2", "l3"], ["l2"]]
    with make_executor("serial") as executor:
        training = OnlineTraining(small, executor)
        before = {name: _flat(policy) for name, policy in training.learner.policies.items()}
        moved = []
        for done in training.loop:
            after = {name: _flat(policy) for name, policy in training.learner.policies.items()}
            moved.append([name for name in after if not torch.equal(after[name], before[name])])
            before = after
            assert np.isfinite(done.stats.critic.loss)
    assert moved == [[], ["l4"], ["l3", "l4"]]


def test_what_is_saved_is_a_mean_over_rounds_and_rates_fall(tmp_path: Path) -> None:
    learner = OnlineLearner(options(tmp_path, rounds=5, critic_rounds=1, average=0.5, final_lr_share=0.2))
    assert [learner.lr_share(i) for i in range(5)] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
    means = []
    for round_, value in enumerate((9.0, 1.0, 3.0, 4.0)):  # round 0 belongs to the critic
        with torch.no_grad():
            learner.l3.layer.op.bias.fill_(value)
        learner.average(round_)
        means.append(float(learner.averaged["l3"].get_parameter("op.bias")[0].detach()))
    assert means[1:] == pytest.approx([1.0, 2.0, 3.0])  # the first; their mean; half of the last mean and half of 4
    assert float(learner.l3.layer.op.bias[0].detach()) == 4.0


def _flat(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([t.detach().float().reshape(-1).clone() for t in module.state_dict().values()])


def test_rounds_validation_and_draws_never_share_a_world(tmp_path: Path) -> None:
    small = options(tmp_path, configurations=3, group=2, field="league+champions")
    first, second = round_tasks(small, 0), round_tasks(small, 1)
    assert [task.field for task in first] == ["league", "league", "champions", "champions", "league", "league"]
    assert not {(t.seed, t.index) for t in first} & {(t.seed, t.index) for t in second}
    assert len({t.draws for t in first + second}) == 12
    assert not {t.seed for t in validation_tasks(small)} & {t.seed for t in first}


def test_an_untrained_l3_starts_as_l1(tmp_path: Path) -> None:
    layer = OnlineLearner(options(tmp_path, init="l1")).l3.layer
    assert not layer.op.weight.any()


def test_noise_instead_of_profit_is_what_the_policy_then_learns_from(tmp_path: Path) -> None:
    with make_executor("serial") as executor:
        training = OnlineTraining(options(tmp_path, reward="noise", configurations=2), executor)
        training.collector.collect(0, 4)
        assert training.collector.last is not None
        target = training.collector.last.moments.target
        scores = [seat.wishes.score - 1 for seat in training.collector.last.seats]
    assert abs(target).max() < 0.5
    assert max(map(abs, scores)) > 0.01


def test_the_command_writes_metrics_validates_and_refuses_other_options(tmp_path: Path) -> None:
    small = options(tmp_path, rounds=1, validate_every=1)
    assert run(small) == 0
    metrics = read_metrics(tmp_path)
    for tag in ("Online/score", "Critic/explained_variance", "PPO/l3/ratio_error", "Validation/all/gain"):
        assert len(metrics[tag].values) == 1
    assert metrics["PPO/l3/ratio_error"].values[0] < 1e-3
    assert len(json.loads((tmp_path / "validation_start.json").read_text())) == 1
    with pytest.raises(ValueError, match=r"clip: 0\.2 → 0\.3"):
        run(options(tmp_path, rounds=1, validate_every=1, clip=0.3))


def test_gain_is_paired_by_configuration() -> None:
    start = [[PlayedSeat(0, 1.0, 0), PlayedSeat(2, 1.0, 0)], [PlayedSeat(0, 0.5, 0)], None]
    now = [[PlayedSeat(0, 1.2, 0), PlayedSeat(2, 1.0, 0)], [PlayedSeat(0, 0.6, 0)], [PlayedSeat(0, 9.0, 0)]]
    found = gain(now, start, None)
    assert found.mean == pytest.approx(0.1)
    assert found.worlds == 2
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))
    assert gain(now, start, 2).mean == 0
    assert gain(now, start, 0).mean == pytest.approx(0.15)


def test_options_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--levels l5 must name some of l2, l3, l4"):
        options(tmp_path, levels="l5")
    with pytest.raises(ValueError, match="--group 0 must be at least 1"):
        options(tmp_path, group=0)
    with pytest.raises(ValueError, match=r"--weight-average 1\.0 0 or more and less than 1"):
        options(tmp_path, average=1.0)
    with pytest.raises(FileNotFoundError, match="--init nowhere is no training's folder"):
        OnlineLearner(options(tmp_path, init="nowhere"))


def test_the_guides_trainer_plays_from_its_own_layers(tmp_path: Path) -> None:
    l2, l3, l4 = initial_layers("l1")
    trainer = HRLXFTrainer(l2, l3, l4, TrainConfig(output_dir=tmp_path))
    trainer.train_phase2_ppo(options(tmp_path / "online", rounds=1, init="nowhere"))
    assert trainer.l3 is not None
    assert trainer.l3 is not l3
    moved = (
        trainer.l3.op.bias.detach().abs().max()
    )  # an untrained L3 begins with 0, and one small round moves it little
    assert 0 < moved < 0.1
    with pytest.raises(ValueError, match="without an L3"):
        HRLXFTrainer(l2, None, l4, TrainConfig(output_dir=tmp_path)).train_phase2_ppo(options(tmp_path / "other"))
