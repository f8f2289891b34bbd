"""A layer's file rebuilds it, and files that are not what they are taken for are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from echelon.hrl_xf.layers.weight_files import LayerFileError, layer_path
from echelon.hrl_xf.networks.files import save_layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO, load_l2
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator, load_l4


def test_a_file_alone_rebuilds_the_layer(tmp_path: Path) -> None:
    layer = HorizonManagerPPO(horizon=12, channels=(4, 8), hidden=16)
    path = save_layer(layer, tmp_path / "l2_bc")
    again = load_l2(path)
    assert again.options == layer.options
    assert not again.training
    for name, value in layer.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)


def test_equal_layers_are_equal_bytes(tmp_path: Path) -> None:
    layer = HorizonManagerPPO(horizon=12, channels=(4, 8), hidden=16)
    files = [save_layer(layer, tmp_path / name, {"data": "x"}).read_bytes() for name in "abc"]
    assert files[0] == files[1] == files[2]
    assert (8 + int.from_bytes(files[0][:8], "little")) % 8 == 0


def test_names_of_the_guides_are_taken(tmp_path: Path) -> None:
    layer = HorizonManagerPPO(horizon=5, channels=(4, 4), hidden=8)
    path = save_layer(layer, tmp_path / "l2_bc.pt")
    assert path == tmp_path / "l2_bc.safetensors"
    assert (tmp_path / "l2_bc.pt").exists()
    save_layer(layer, tmp_path / "l2_bc.pt")  # a second time too
    assert load_l2(tmp_path / "l2_bc.pt").horizon == 5
    assert layer_path("a/l2_bc_epoch3.ckpt.pt") == Path("a/l2_bc_epoch3.safetensors")


def test_files_that_are_something_else_are_refused(tmp_path: Path) -> None:
    l2 = save_layer(HorizonManagerPPO(horizon=5, channels=(4, 4), hidden=8), tmp_path / "l2")
    with pytest.raises(LayerFileError, match="holds a HorizonManagerPPO, not a GlobalCoordinator"):
        load_l4(l2)
    l4 = save_layer(GlobalCoordinator(horizon=5, width=8), tmp_path / "l4")
    assert load_l4(l4).horizon == 5
    with pytest.raises(FileNotFoundError, match="train the layer first"):
        load_l2(tmp_path / "nothing.pt")
    (tmp_path / "cut.safetensors").write_bytes(l2.read_bytes()[:-40])
    with pytest.raises(LayerFileError, match="not a whole safetensors file"):
        load_l2(tmp_path / "cut")
    save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(LayerFileError, match="does not say which layer"):
        load_l2(tmp_path / "other")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("format_version", "99", "format_version 99"),
        ("feature_version", "0", "features of version 0"),
        ("options", json.dumps({"horizon": 5, "colour": 3}), "make no HorizonManagerPPO"),
        ("options", json.dumps({"horizon": 5, "channels": [4, 5], "hidden": 8}), "has shape"),
    ],
)
def test_headers_of_other_versions_and_shapes_are_refused(tmp_path: Path, key: str, value: str, reason: str) -> None:
    layer = HorizonManagerPPO(horizon=5, channels=(4, 4), hidden=8)
    path = save_layer(layer, tmp_path / "l2")
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        header = dict(file.metadata()) | {key: value}
    save_file(layer.state_dict(), path, header)
    with pytest.raises(LayerFileError, match=reason):
        load_l2(path)


def test_an_unavailable_device_is_refused(tmp_path: Path) -> None:
    path = save_layer(HorizonManagerPPO(channels=(4, 4), hidden=8), tmp_path / "l2_bc")
    with pytest.raises(ValueError, match=r"device 'cuda:7' is not a device .* use cpu"):
        load_l2(path, "cuda:7")


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    layer = HorizonManagerPPO(horizon=5, channels=(4, 4), hidden=8)
    with torch.no_grad():
        layer.mean.bias[3] = float("nan")
    with pytest.raises(LayerFileError, match=r"mean\.bias holds values that are not finite"):
        load_l2(save_layer(layer, tmp_path / "l2"))
