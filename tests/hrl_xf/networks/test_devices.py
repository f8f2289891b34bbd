"""Training, backfill and evaluation on another device give what the CPU gives; one that is not there is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from echelon.hrl_xf.commands import evaluate
from echelon.hrl_xf.commands import train as train_command
from echelon.hrl_xf.layers.l3_situation import Situation
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.options.train import EvaluateOptions
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.runtime.devices import device_of, on_device
from echelon.runtime.metrics import read_metrics
from tests.hrl_xf.layers.examples import played, tokens, wild
from tests.hrl_xf.log_examples import LOGS, PENGUIN_MIDDLE, train_options
from tests.hrl_xf.networks.other_device import NAME, OtherDevice, There
from tests.rounding import EPS, ROUNDINGS


@pytest.fixture(scope="module")
def runs(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same training on the CPU, on the other device, and begun there and ended on the CPU."""
    folder = tmp_path_factory.mktemp("runs")
    train(folder / "cpu", cache)
    with OtherDevice() as device:
        train(folder / "other", cache, device=NAME, l2_backfill_device=NAME)
        assert device.operations > 10_000
        train(folder / "both", cache, device=NAME, epochs=1, phases="l2")
    train(folder / "both", cache, phases="l2")
    return {name: folder / name for name in ("cpu", "other", "both")}


def train(folder: Path, cache: Path, epochs: int = 2, phases: str = "l2,l3,l4", **more: Any) -> None:
    options = train_options(
        phases=phases, l3_awr="l3" in phases, cache_dir=cache, output_dir=folder, num_workers=1,
        quiet=True, val_ratio=0.3, test_ratio=0.3,
        split_seed=1, l2_epochs=epochs, l3_epochs=epochs, l3_awr_epochs=epochs, l4_epochs=epochs, critic_epochs=epochs,
        l2_batch_size=64, l3_batch_size=256, l4_batch_size=64, **more,
    )  # fmt: skip
    assert train_command.run(options) == 0


def close(found: Path, wanted: Path, scale: float) -> None:
    """Tensors of two files, each as near as `scale` of its largest number: other kernels round otherwise.

    Some gradients are 0 but for rounding (softmax does not see a constant that is added to all logits): that of the
    largest numbers of this kind.
    """
    ours, theirs = load_file(found), load_file(wanted)
    assert set(ours) == set(theirs)
    for name, tensor in theirs.items():
        alike = [t for other, t in theirs.items() if other.split(".")[-1] == name.split(".")[-1]]
        most = max(scale * float(tensor.abs().max()), ROUNDINGS * EPS * max(float(t.abs().max()) for t in alike))
        torch.testing.assert_close(ours[name], tensor, rtol=0, atol=most, msg=f"{name} differs")


@pytest.mark.parametrize("phase", ["l2_bc", "l3_bc", "critic", "l3_awr", "l4_distill"])
def test_it_learns_the_same_on_another_device(runs: dict[str, Path], phase: str) -> None:
    """Losses, and the optimiser's means of gradients and their squares; the weights have hardly moved yet."""
    one, other = read_metrics(runs["cpu"]), read_metrics(runs["other"])
    for name in ("train_loss", "val_loss", "test_loss"):
        assert other[f"{phase}/{name}"].values == pytest.approx(one[f"{phase}/{name}"].values, rel=1e-4)
    last = f"checkpoints/{phase}/{phase}_epoch2"
    close(runs["other"] / last / "optimiser.safetensors", runs["cpu"] / last / "optimiser.safetensors", 0.01)
    close(runs["other"] / f"{phase}.safetensors", runs["cpu"] / f"{phase}.safetensors", 0.01)


def test_a_training_started_on_one_device_resumes_on_another(runs: dict[str, Path]) -> None:
    last = "checkpoints/l2_bc/l2_bc_epoch2/optimiser.safetensors"
    close(runs["both"] / last, runs["cpu"] / last, 0.01)


@pytest.mark.parametrize("layer", ["l2", "l3", "l4", "critic"])
def test_figures_are_the_same_on_another_device(runs: dict[str, Path], cache: Path, layer: Any) -> None:
    def figures(device: str) -> Any:
        options = EvaluateOptions(
            data_dir=LOGS, cache_dir=cache, output_dir=runs["cpu"], layer=layer, split="val", num_workers=1,
            control_epochs=1, quiet=True, device=device,
        )  # fmt: skip
        assert evaluate.run(options) == 0
        found = json.loads((runs["cpu"] / f"evaluation_{layer}_val.json").read_text())
        return found["network"] | {"control": found.get("control: no history", {}).get("loss", 0.0)}

    wanted = figures("cpu")
    with OtherDevice():
        found = figures(NAME)
    flat = [x for x in wanted if isinstance(wanted[x], float)] or ["Q", "P"]
    for name in flat:
        assert found[name] == pytest.approx(wanted[name], rel=1e-2, abs=1e-4), name


def test_answers_in_play_are_those_of_the_cpu_and_are_on_the_cpu() -> None:
    situation: Situation = played(PENGUIN_MIDDLE, L1SafetyLayer()).situation
    n = len(situation)
    layer = wild(TemporalDecisionTransformer(width=16, heads=2), 3, 0.2)
    told = tokens(np.random.default_rng(0), n, 1).numpy()

    def answers() -> Any:
        cache = layer.new_cache(n)
        cache.tell(np.arange(n), told, np.ones(n, np.int64))
        drawn = layer.act(cache.states(np.arange(n)), situation, generator=np.random.default_rng(4), greedy=False)
        return drawn.op, drawn.offer, drawn.log_prob

    wanted = answers()
    with OtherDevice():
        layer.to(NAME)
        found = answers()
    for ours, theirs in zip(found, wanted, strict=True):
        assert not isinstance(ours, There)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_the_other_device_refuses_what_a_gpu_refuses() -> None:
    with OtherDevice():
        x = torch.ones(3, device=NAME)
        assert float((x + x).sum()) == 6
        with pytest.raises(RuntimeError, match="two devices"):
            x + torch.ones(3)
        with pytest.raises(RuntimeError, match="two devices"):
            x[torch.arange(2)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": "cuda:7"}, r"--device 'cuda:7' is not a device that torch can use here \(.+\); use cpu"),
        ({"l2_backfill_device": "gpu"}, r"--l2-backfill-device 'gpu' is not a device .*Expected one of cpu"),
        ({"device": "meta"}, "--device 'meta' is not a device"),
    ],
)
def test_an_unavailable_device_is_refused_before_anything_is_written(
    changes: dict[str, str], reason: str, tmp_path: Path
) -> None:
    options = train_options(output_dir=tmp_path / "run", **changes)
    with pytest.raises(ValueError, match=reason):
        train_command.run(options)
    assert list(tmp_path.iterdir()) == []


def test_evaluation_refuses_it_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--device 'cuda:7' is not a device"):
        evaluate.run(EvaluateOptions(data_dir=LOGS, output_dir=tmp_path, device="cuda:7"))


@dataclass(frozen=True)
class _Pair:
    a: torch.Tensor
    b: torch.Tensor | None


def test_all_of_a_batch_is_moved_and_nothing_for_the_cpu() -> None:
    pair = torch.ones(2), _Pair(torch.ones(3), None)
    assert on_device(pair, device_of("cpu")) is pair
    with OtherDevice() as device:
        first, second = on_device(pair, device_of(NAME))
        assert device.operations
        assert isinstance(first, There)
        assert isinstance(second.a, There)
        assert second.b is None
