"""Which layers an agent plays with."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.layers.l2_play import PlayManager
from echelon.hrl_xf.layers.l3_play import PlayExecutor
from echelon.hrl_xf.layers.l4_play import PlayCoordinator
from echelon.hrl_xf.layers.layers import Layers
from echelon.hrl_xf.layers.rules import BaselineExecutor, HeuristicCoordinator, HeuristicExecutor, HeuristicManager
from echelon.hrl_xf.layers.weight_files import LayerFileError, read_layer
from echelon.hrl_xf.networks.files import save_layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO, load_l2
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer, load_l3
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator, load_l4
from echelon.hrl_xf.play.choice import choose_layers, plain_layers, rule_layers
from echelon.hrl_xf.play.day import DayPlay, Question
from echelon.hrl_xf.state.day_state import Role
from echelon.hrl_xf.state.l1_safety import L1SafetyLayer
from echelon.hrl_xf.weights import BUNDLED, layer_in
from tests.hrl_xf.state.examples import a_day
from tests.rounding import assert_equal_but_for_rounding


def test_without_arguments_it_plays_with_the_weights_of_the_package() -> None:
    layers = LitaAgentHRL().layers
    assert isinstance(layers.l2, PlayManager)
    assert isinstance(layers.l3, PlayExecutor)
    assert isinstance(layers.l4, PlayCoordinator)
    size = sum(path.stat().st_size for path in BUNDLED.glob("*.safetensors"))
    assert size < 10_000_000


def test_every_layer_can_be_a_heuristic() -> None:
    layers = LitaAgentHRL(l2="heuristic", l3="heuristic", l4="heuristic").layers
    assert isinstance(layers.l2, HeuristicManager)
    assert isinstance(layers.l3, HeuristicExecutor)
    assert isinstance(layers.l4, HeuristicCoordinator)
    assert isinstance(LitaAgentHRL(l3="l1").layers.l3, BaselineExecutor)
    assert [type(layer) for layer in vars(rule_layers()).values()] == [type(layer) for layer in vars(layers).values()]
    plain = plain_layers()
    assert isinstance(plain.l2, HeuristicManager)
    assert isinstance(plain.l3, BaselineExecutor)
    assert isinstance(plain.l4, HeuristicCoordinator)


def test_a_layer_of_ones_own_is_used_as_it_is() -> None:
    l2, l3, l4 = HorizonManagerPPO(), TemporalDecisionTransformer(), GlobalCoordinator()
    layers = LitaAgentHRL(l2=l2, l3=l3, l4=l4).layers
    assert layers.l2 is l2
    assert layers.l3 is l3
    assert layers.l4 is l4


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A training run's weights."""
    for stem, layer in (
        ("l2_bc", HorizonManagerPPO(hidden=24)),
        ("l3_bc", TemporalDecisionTransformer(width=16)),
        ("l4_distill", GlobalCoordinator(width=16)),
    ):
        save_layer(layer, tmp_path / stem)
    return tmp_path


def test_paths_have_priority_over_choices(run: Path) -> None:
    layers = LitaAgentHRL(
        l2="heuristic", l2_model_path=str(run / "l2_bc"), l3_model_path=str(run / "l3_bc.safetensors"), l4="heuristic"
    ).layers
    assert isinstance(layers.l2, PlayManager)
    assert layers.l2.trunk.bias.shape == (24,)
    assert isinstance(layers.l3, PlayExecutor)
    assert layers.l3.width == 16
    assert isinstance(layers.l4, HeuristicCoordinator)


def test_a_folder_means_its_file_and_awr_is_preferred_to_bc(run: Path) -> None:
    layers = choose_layers(run, run, run)
    assert isinstance(layers.l3, PlayExecutor)
    assert layers.l3.width == 16
    save_layer(TemporalDecisionTransformer(width=32), run / "l3_awr")
    better = choose_layers(run, run, run).l3
    assert isinstance(better, PlayExecutor)
    assert better.width == 32
    assert layer_in(run, "l3").name == "l3_awr.safetensors"


def test_a_file_is_read_once_and_again_when_it_changes(run: Path) -> None:
    path = run / "l4_distill.safetensors"
    first = choose_layers("heuristic", "l1", path).l4
    assert choose_layers("heuristic", "l1", path).l4 is first
    save_layer(GlobalCoordinator(width=24), path)
    os.utime(path, ns=(1, 1))
    changed = choose_layers("heuristic", "l1", path).l4
    assert isinstance(changed, PlayCoordinator)
    assert changed.width == 24


def test_a_missing_file_is_named_with_the_cure(tmp_path: Path, run: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(
        FileNotFoundError,
        match=r"no l3_evolved.safetensors or l3_ppo.safetensors or .* or l3_bc.safetensors; .* l3=heuristic",
    ):
        choose_layers("heuristic", empty, "heuristic")
    with pytest.raises(FileNotFoundError, match=r"nothing_here.safetensors does not exist"):
        LitaAgentHRL(l2_model_path=str(tmp_path / "nothing_here"))
    with pytest.raises(ValueError, match="HorizonManagerPPO"):
        LitaAgentHRL(l3_model_path=str(run / "l2_bc"))


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="greedy or sample"):
        LitaAgentHRL(mode="clever")  # type: ignore[arg-type]


def test_a_file_plays_as_the_network_in_it(run: Path) -> None:
    networks = Layers(load_l2(run / "l2_bc"), load_l3(run / "l3_bc"), load_l4(run / "l4_distill"))
    partners: dict[str, Role] = {"a": "seller", "b": "seller", "c": "buyer"}
    seen = []
    for layers in (choose_layers(run, run, run), networks):
        play = DayPlay(a_day(inventory_input=9), layers, L1SafetyLayer(), partners)
        play.answer([Question(name, (3, 12, 28), 4, 0.2) for name in partners])
        call = play.last_call
        assert call is not None
        seen.append((play.goal, call.alpha, call.actions.op_log_probs, call.actions.offer))
    for ours, theirs in zip(*seen, strict=True):
        assert_equal_but_for_rounding(ours, theirs)


@pytest.mark.parametrize(
    ("options", "change", "reason"),
    [
        ({}, {"extra.weight": np.zeros(3, np.float32)}, r"extra\.weight are not part of a GlobalCoordinator"),
        ({}, {"common.bias": None}, r"common\.bias is missing"),
        ({"width": 24}, {}, r"has shape .*, the layer needs"),
        ({"colour": 3}, {}, "make no GlobalCoordinator"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    tmp_path: Path, options: dict[str, Any], change: dict[str, Any], reason: str
) -> None:
    layer = GlobalCoordinator(width=16)
    weights = {name: weight.numpy() for name, weight in layer.state_dict().items()} | change
    path = save_layer(layer, tmp_path / "l4_distill")
    header, _ = read_layer(path)
    header["options"] = json.dumps(layer.options | options)
    save_file({name: array for name, array in weights.items() if array is not None}, path, header)
    with pytest.raises(LayerFileError, match=reason):
        choose_layers("heuristic", "l1", path)
