"""The page of a training run."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from echelon.hrl_xf.learning.training_plots import page
from echelon.runtime.metrics import MetricsWriter


def test_every_phase_that_was_trained_is_drawn(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path, tensorboard=False) as metrics:
        for epoch, loss in ((1, 3.0), (2, 1.0), (3, 2.0)):
            for phase in ("l2_bc", "l3_bc"):
                metrics.record(f"{phase}/train_loss", loss - 0.5, epoch)
                metrics.record(f"{phase}/val_loss", loss, epoch)
            metrics.record("l3_bc/train_acc_op", 0.5, epoch)
        metrics.record("l3_bc/test_loss", 1.25, 3)
    html = page(tmp_path)
    assert "3 epochs, best 2 (loss 1)" in html
    assert "test: loss 1.25" in html
    assert "L4" not in html
    drawings = html.split("<svg")[1:]
    assert len(drawings) == 3  # two losses, one accuracy
    for drawing in drawings:
        ElementTree.fromstring("<svg" + drawing.partition("</svg>")[0] + "</svg>")  # whole
    assert "http-equiv" not in html
    assert "<script" not in html


def test_a_folder_without_training_is_an_error(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path, tensorboard=False) as metrics:
        metrics.record("other/loss", 1.0, 1)
    with pytest.raises(ValueError, match="holds no training"):
        page(tmp_path)
