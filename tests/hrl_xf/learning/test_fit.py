"""A fit that is stopped and resumed equals one that was not, bit for bit; a checkpoint of another fit is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from echelon.hrl_xf.learning.fit import checkpoint_path, fit, history_of
from echelon.hrl_xf.learning.sources import in_order, shuffled
from echelon.hrl_xf.learning.task import EpochReport, FitSettings, FitTask, Sums
from echelon.hrl_xf.networks.files import Layer
from echelon.runtime.checkpoint import CheckpointError, latest, load_checkpoint
from echelon.runtime.files import read_json

pytestmark = pytest.mark.numeric

SETTINGS = FitSettings(epochs=4, batch_size=8, lr=1e-2, average=0.0, seed=3, warmup_steps=5)


class Line(Layer):
    """Learns a line."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.options = {"width": width}
        self.linear = nn.Linear(width, 1)


class Points:
    """Points on a line, with noise."""

    def __init__(self, n: int = 50, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, 3)).astype(np.float32)
        self.x, self.y = (
            torch.as_tensor(x),
            torch.as_tensor((x @ [1, -2, 0.5] + rng.normal(size=n) / 10).astype(np.float32)),
        )

    def __len__(self) -> int:
        return len(self.x)

    def load(self, at: Any) -> tuple[Tensor, Tensor]:
        return self.x[at], self.y[at]

    def epoch(self, batch_size: int, rng: np.random.Generator | None) -> Any:
        return in_order(len(self), batch_size) if rng is None else shuffled(len(self), batch_size, rng)


def square(layer: Layer, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Sums]:
    assert isinstance(layer, Line)
    error = ((layer.linear(batch[0]).squeeze(-1) - batch[1]) ** 2).mean()
    return error, {"loss": (float(error.detach()) * len(batch[1]), len(batch[1]))}


def task(width: int = 3, **changes: Any) -> FitTask:
    torch.manual_seed(0)
    return replace(FitTask("l2_bc", Line(width), Points(), Points(20, 1), square, "data"), **changes)


def after(calls: int) -> Callable[[], bool]:
    """True from the given call on: a stop in the middle of an epoch."""
    count = 0

    def stop() -> bool:
        nonlocal count
        count += 1
        return count > calls

    return stop


def weights(t: FitTask) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in t.layer.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def figures(reports: list[EpochReport]) -> list[Any]:
    return [(r.epoch, r.train, r.val, r.lr, r.is_best) for r in reports]


def test_it_learns_and_ends_with_the_best_weights(tmp_path: Path) -> None:
    t = task()
    reports = list(fit(t, replace(SETTINGS, epochs=40), tmp_path))
    assert reports[-1].val["loss"] < 0.05 < reports[0].val["loss"]
    at = min(range(40), key=lambda i: reports[i].val["loss"])
    assert [r.epoch for r in reports if r.is_best][-1] == at + 1
    assert read_json(tmp_path / "l2_bc" / "pointers.json")["best"] == f"l2_bc_epoch{at + 1}"
    assert square(t.layer, t.val.load(np.arange(20)))[1]["loss"][0] / 20 == pytest.approx(reports[at].val["loss"])  # type: ignore[union-attr]


@pytest.mark.parametrize("average", [0.0, 0.9])
@pytest.mark.parametrize("stops", [[3], [0, 9, 1, 12], [7, 7]])
def test_stopped_in_the_middle_of_an_epoch_and_resumed_equals_not_stopping(
    tmp_path: Path, stops: list[int], average: float
) -> None:
    settings = replace(SETTINGS, average=average)
    whole = task()
    wanted = list(fit(whole, settings, tmp_path / "whole"))
    reports: list[EpochReport] = []
    for calls in stops:
        reports += fit(task(), settings, tmp_path / "parts", resume=True, stop=after(calls))
    last = task()
    reports += fit(last, settings, tmp_path / "parts", resume=True)
    assert same(weights(last), weights(whole))
    assert figures(reports) == figures(wanted)
    kept = [h["train"] for h in history_of("l2_bc", tmp_path / "parts")]
    assert kept == [r.train for r in wanted]


def test_when_checkpoints_are_written_has_no_effect(tmp_path: Path) -> None:
    seldom, often = task(), task()
    list(fit(seldom, replace(SETTINGS, save_every=3), tmp_path / "a"))
    list(fit(often, replace(SETTINGS, checkpoint_seconds=0.0), tmp_path / "b"))
    assert same(weights(seldom), weights(often))
    assert latest(tmp_path / "a" / "l2_bc") == tmp_path / "a" / "l2_bc" / "l2_bc_epoch4"


def test_a_resumed_run_uses_the_learning_rate_it_is_given(tmp_path: Path) -> None:
    list(fit(task(), replace(SETTINGS, epochs=2), tmp_path))
    (third, fourth) = fit(task(), replace(SETTINGS, epochs=4, lr=1e-4), tmp_path, resume=True)
    assert (third.epoch, third.lr, fourth.lr) == (3, 1e-4, 1e-4)


def test_a_smaller_rate_really_takes_smaller_steps(tmp_path: Path) -> None:
    moved = {}
    for lr in (1e-2, 1e-5):
        folder = tmp_path / str(lr)
        t = task(val=None)
        list(fit(t, replace(SETTINGS, epochs=1), folder))
        before = weights(t)
        list(fit(t, replace(SETTINGS, epochs=2, lr=lr), folder, resume=True))
        moved[lr] = max(float((weights(t)[n] - before[n]).abs().max()) for n in before)
    assert moved[1e-5] < moved[1e-2] / 100


def test_a_finished_run_has_nothing_to_do_and_continues_with_more_epochs(tmp_path: Path) -> None:
    whole = task()
    list(fit(whole, replace(SETTINGS, epochs=6), tmp_path / "whole"))
    first = task()
    list(fit(first, SETTINGS, tmp_path / "parts"))
    again = task()
    assert list(fit(again, SETTINGS, tmp_path / "parts", resume=True)) == []
    assert same(weights(again), weights(first))
    more = task()
    assert [r.epoch for r in fit(more, replace(SETTINGS, epochs=6), tmp_path / "parts", resume=True)] == [5, 6]
    assert same(weights(more), weights(whole))


def test_early_stopping_waits_for_the_given_epochs(tmp_path: Path) -> None:
    stuck = task(val=Points(20, 1))
    reports = list(fit(stuck, replace(SETTINGS, epochs=50, lr=1e-30, early_stop=3), tmp_path))
    best_epoch = max(r.epoch for r in reports if r.is_best)
    assert reports[-1].epoch == best_epoch + 3
    assert list(fit(task(), replace(SETTINGS, epochs=50, lr=1e-30, early_stop=3), tmp_path, resume=True)) == []


@pytest.mark.parametrize(
    ("changes", "settings", "reason"),
    [
        ({"fingerprint": "others"}, SETTINGS, 'data: "data" → "others"'),
        ({"describe": {"q_weight": 2}}, SETTINGS, "task.q_weight"),
        ({}, replace(SETTINGS, batch_size=9), "batch_size: 8 → 9"),
        ({}, replace(SETTINGS, seed=4), "seed: 3 → 4"),
        ({"layer": Line(4)}, SETTINGS, "options.width: 3 → 4"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused_with_the_difference(
    tmp_path: Path, changes: dict[str, Any], settings: FitSettings, reason: str
) -> None:
    list(fit(task(), replace(SETTINGS, epochs=1), tmp_path))
    with pytest.raises(CheckpointError, match=reason):
        list(fit(task(**changes), settings, tmp_path, resume=True))


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    list(fit(task(), replace(SETTINGS, epochs=1), tmp_path))
    file = tmp_path / "l2_bc" / "l2_bc_epoch1" / "weights.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match="damaged"):
        list(fit(task(), SETTINGS, tmp_path, resume=True))


def test_without_resume_it_starts_again(tmp_path: Path) -> None:
    list(fit(task(), SETTINGS, tmp_path))
    reports = list(fit(task(), replace(SETTINGS, epochs=2), tmp_path))
    assert [r.epoch for r in reports] == [1, 2]
    assert not (tmp_path / "l2_bc" / "l2_bc_epoch4").exists()


def test_paths_as_the_guides_write_them(tmp_path: Path) -> None:
    list(fit(task(), replace(SETTINGS, epochs=2), tmp_path))
    wanted = tmp_path / "l2_bc" / "l2_bc_epoch1"
    for named in ("out/l2_bc_epoch1.ckpt.pt", "l2_bc_epoch1.pt", "l2_bc_epoch1", str(wanted)):
        assert checkpoint_path(tmp_path, Path(named)) == wanted
    with pytest.raises(FileNotFoundError, match="l2_bc_epoch9"):
        checkpoint_path(tmp_path, Path("l2_bc_epoch9.ckpt.pt"))
    (report,) = fit(task(), replace(SETTINGS, epochs=2), tmp_path, resume=wanted)
    assert report.epoch == 2


def test_resuming_from_an_earlier_checkpoint_ignores_later_ones(tmp_path: Path) -> None:
    list(fit(task(), replace(SETTINGS, epochs=10), tmp_path))
    worse = task()
    start = tmp_path / "l2_bc" / "l2_bc_epoch1"
    reports = list(fit(worse, replace(SETTINGS, epochs=3, lr=1e-9), tmp_path, resume=start))
    assert [r.epoch for r in reports] == [2, 3]
    loss = square(worse.layer, worse.val.load(np.arange(20)))[1]["loss"][0] / 20  # type: ignore[union-attr]
    assert loss == pytest.approx(min(r.val["loss"] for r in reports), rel=1e-4)


def test_an_empty_split_and_a_nan_loss_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="training split is empty"):
        list(fit(task(train=Points(0)), SETTINGS, tmp_path))
    broken = task()
    broken.train.x[7] = torch.nan  # type: ignore[attr-defined]
    with pytest.raises(FloatingPointError, match="the loss is nan"):
        list(fit(broken, SETTINGS, tmp_path))


def test_a_figure_without_samples_is_left_out_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    def some(layer: Layer, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Sums]:
        loss, sums = square(layer, batch)
        return loss, sums | {"acc_day": (0.0, 0.0)}

    def none(layer: Layer, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Sums]:
        return square(layer, batch)[0], {"loss": (0.0, 0.0)}

    (report,) = fit(task(loss=some), replace(SETTINGS, epochs=1), tmp_path)
    assert set(report.train) == set(report.val) == {"loss"}
    assert [h["epoch"] for h in history_of("l2_bc", tmp_path)] == [1], "it can be saved"
    with pytest.raises(ValueError, match="no row of the training split has a target"):
        list(fit(task(loss=none), SETTINGS, tmp_path))


def flat(layer: Layer) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in layer.parameters()])


def test_saved_weights_are_a_running_mean_that_does_not_affect_training(tmp_path: Path) -> None:
    path: list[Tensor] = []

    def watched(layer: Layer, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Sums]:
        path.append(flat(layer))
        return square(layer, batch)

    settings = replace(SETTINGS, epochs=2, lr=0.1)
    plain = task(loss=watched, val=None)
    list(fit(plain, settings, tmp_path / "plain"))
    steps = list(path)
    path.clear()
    mean = task(loss=watched, val=None)
    list(fit(mean, replace(settings, average=0.8), tmp_path / "mean"))
    assert len(path) == len(steps) == 14
    assert all(torch.equal(a, b) for a, b in zip(path, steps, strict=True)), "the same way"
    trained = load_checkpoint(tmp_path / "mean" / "l2_bc" / "l2_bc_epoch2").tensors["optimiser"]["training"]
    wanted = path[0].clone()
    for number, weights_now in enumerate([*path[1:], trained], start=1):
        kept = min(0.8, (number + 1) / (number + 10))
        wanted = kept * wanted + (1 - kept) * weights_now
    saved = load_checkpoint(tmp_path / "mean" / "l2_bc" / "l2_bc_epoch2").tensors["weights"]
    found = torch.cat([saved[name].reshape(-1) for name in ("linear.weight", "linear.bias")])
    torch.testing.assert_close(found, wanted)
    assert not torch.allclose(found, trained)


def test_parameters_that_the_loss_does_not_reach_stay_as_they_are(tmp_path: Path) -> None:
    t = task()
    t.layer.spare = nn.Linear(2, 2)
    before = t.layer.spare.weight.clone()
    list(fit(t, replace(SETTINGS, weight_decay=0.5), tmp_path, stop=after(9)))
    t = task()
    t.layer.spare = nn.Linear(2, 2)
    list(fit(t, replace(SETTINGS, weight_decay=0.5), tmp_path, resume=True))
    assert torch.equal(t.layer.spare.weight, before)
