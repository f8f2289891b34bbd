"""Training on real logs: the guides' own scripts, AWR beside cloning, and what the layers learn."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from echelon.hrl_xf.dataset.datasets import l4_of, macro_of, micro_of
from echelon.hrl_xf.dataset.goal_backfill import with_goals
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO, load_l2
from echelon.hrl_xf.networks.l3_executor import load_l3
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator, load_l4
from echelon.hrl_xf.options.train import TrainConfig
from echelon.hrl_xf.training import HRLXFTrainer, save_model
from echelon.runtime.checkpoint import CheckpointError
from tests.hrl_xf.layers.examples import small_l3
from tests.hrl_xf.log_examples import LOGS


def test_the_phases_in_their_order(data: TournamentData, tmp_path: Path) -> None:
    torch.manual_seed(0)
    cfg = TrainConfig(
        output_dir=tmp_path, l2_epochs=4, l3_epochs=4, l3_awr_epochs=2, l4_epochs=4, l2_batch_size=16, l3_batch_size=32,
        l4_batch_size=16,
    )  # fmt: skip
    trainer = HRLXFTrainer(HorizonManagerPPO(channels=(8, 8), hidden=16), small_l3(), GlobalCoordinator(width=16), cfg)
    l2 = trainer.train_phase0_bc(macro_of(data), [])
    assert l2[-1].train["loss"] < l2[0].train["loss"]
    data = with_goals(data, "l2", tmp_path / "l2_bc.safetensors")
    l3 = trainer.train_phase0_bc([], micro_of(data))
    assert l3[-1].train["loss"] < l3[0].train["loss"] - 0.1
    cloned = (tmp_path / "l3_bc.safetensors").read_bytes()
    trainer.train_phase1_awr(micro_of(data))
    assert (tmp_path / "l3_bc.safetensors").read_bytes() == cloned, "AWR must not overwrite what cloning made"
    started, awr = load_l3(tmp_path / "l3_bc"), load_l3(tmp_path / "l3_awr")
    assert all(torch.equal(trainer.l3.state_dict()[n], v) for n, v in started.state_dict().items())  # type: ignore[union-attr]
    distance = max(float((awr.state_dict()[n] - v).abs().max()) for n, v in started.state_dict().items())
    assert 0 < distance < 0.1, "AWR starts from cloning and moves a little"
    l4 = trainer.train_l4_distill(l4_of(data))
    assert l4[-1].train["excess"] < l4[0].train["excess"]
    assert [p.name for p in trainer.save_all("all")] == [f"all_{n}.safetensors" for n in ("l2", "l3", "l3_awr", "l4")]
    assert load_l4(tmp_path / "l4_distill").options == load_l4(tmp_path / "all_l4").options
    for phase in ("l2_bc", "l3_bc", "l4_distill"):
        assert (tmp_path / "checkpoints" / phase / f"{phase}_epoch4" / "weights.safetensors").exists()


def test_goals_that_changed_are_refused_when_asked_to_check(data: TournamentData, tmp_path: Path) -> None:
    cfg = TrainConfig(output_dir=tmp_path, l3_epochs=1, resume=True, check_goals=True)
    HRLXFTrainer(None, small_l3(), None, cfg).train_phase0_bc([], micro_of(data))
    data = with_goals(data, "v2")
    with pytest.raises(CheckpointError, match=r"task\.goals"):
        HRLXFTrainer(None, small_l3(), None, cfg).train_phase0_bc([], micro_of(data))


def test_wrong_use_is_refused_with_the_reason(data: TournamentData, tmp_path: Path) -> None:
    cfg = TrainConfig(output_dir=tmp_path)
    with pytest.raises(ValueError, match="made without an L2"):
        HRLXFTrainer(None, None, None, cfg).train_phase0_bc(macro_of(data), [])
    with pytest.raises(ValueError, match="horizon 12, the data 40"):
        HRLXFTrainer(HorizonManagerPPO(horizon=12), None, None, cfg).train_phase0_bc(macro_of(data), [])
    with pytest.raises(ValueError, match="needs a MacroDataset"):
        HRLXFTrainer(HorizonManagerPPO(), None, None, cfg).train_phase0_bc([1, 2], [])


SNIPPETS = Path(__file__).parent.parent / "data" / "guide_snippets.txt"


def snippets() -> list[str]:
    """The Python of the guides that trains, as it is but for the package's name and the data's place."""
    return [s for s in re.split(r"^### .*\n", SNIPPETS.read_text(), flags=re.M) if s.strip()]


def test_the_guides_scripts_run_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "tournament_history" / "hrl_data_<timestamp>_std"
    place.mkdir(parents=True)
    for log in sorted((LOGS / "short" / "tracker_logs").glob("agent_*Pe@*")):
        (place / log.name).write_bytes(log.read_bytes())
    scripts = snippets()
    assert len(scripts) >= 5
    for script in scripts:
        text = script.replace("litaagent_std.", "echelon.").replace("num_workers=4", "num_workers=1")
        exec(compile(text, "guide", "exec"), {"__name__": "guide"})  # our own guide
    assert load_l2(tmp_path / "out_hrlxf" / "l2_bc.pt").horizon == 40
    assert load_l3(tmp_path / "checkpoints_hrlxf" / "l3_bc.pt").horizon == 40
    assert load_l4(place / "checkpoints" / "l4_distill.pt").horizon == 40


def test_a_model_is_saved_under_the_name_asked_for(tmp_path: Path) -> None:
    layer = HorizonManagerPPO(channels=(4, 4), hidden=8)
    assert save_model(layer, tmp_path / "new", "l2_bc.pt").name == "l2_bc.safetensors"
    assert load_l2(tmp_path / "new" / "l2_bc.pt").options == layer.options


SCRIPT = """
from echelon.hrl_xf import training
from echelon.hrl_xf.data_pipeline import load_l4_distill_data, load_tournament_data
from echelon.hrl_xf.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.l4_coordinator import GlobalCoordinator

macro, micro = load_tournament_data({logs!r}, agent_name="Pe", num_workers=1, cache_dir={cache!r})
sets = load_l4_distill_data({logs!r}, agent_name="Pe", num_workers=1, cache_dir={cache!r}, goal_source="v2")
sizes = {{"l2_batch_size": 8, "l3_batch_size": 32, "l4_batch_size": 16}}
cfg = training.TrainConfig(l2_epochs=2, l3_epochs=2, l4_epochs=2, output_dir="out", **sizes)
training.train_l2_bc(HorizonManagerPPO(), macro, cfg)
training.train_l3_bc(TemporalDecisionTransformer(width=16, heads=2, layers=1, hidden=32), micro, cfg)
training.train_l4_distill(GlobalCoordinator(), sets, cfg)
"""


def test_phases_called_plainly_train_and_print_their_epochs(cache: Path, tmp_path: Path) -> None:
    """In a script that has not heard of logging."""
    script = SCRIPT.format(logs=str(LOGS), cache=str(cache))
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for phase in ("l2_bc", "l3_bc", "l4_distill"):
        epochs = [line for line in done.stdout.splitlines() if line.startswith(f"{phase} epoch ")]
        assert [line.split()[2] for line in epochs] == ["1/2", "2/2"]
        losses = [float(line.split(" loss ")[1].split()[0]) for line in epochs]
        assert losses[1] < losses[0], "it has learnt"
        assert (tmp_path / "out" / f"{phase}.safetensors").exists()
