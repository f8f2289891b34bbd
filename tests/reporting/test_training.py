"""Curves of training runs."""

from __future__ import annotations

import base64
import math
from pathlib import Path

import pytest

from echelon.cli import main
from echelon.reporting.training import POINTS, training
from echelon.runtime.metrics import MetricsWriter
from tests.reporting.examples import write_training


def test_phases_have_validation_and_training_and_the_best_epoch(tmp_path: Path) -> None:
    (part,) = training(write_training(tmp_path / "run", [3.0, 1.0, 2.0]))["parts"]
    assert part["title"].startswith("L2")
    assert part["line"] == "3 epochs, best 2 (loss 1.5)"
    loss, error = part["plots"]
    train, val = loss["series"]
    assert train["partOf"] == val["name"] == "loss"
    assert (val["x"], val["y"], val["mark"]) == ([1, 2, 3], [3.5, 1.5, 2.5], [2, 1.5])
    assert [line["name"] for line in error["series"]] == ["mae_q"]  # it was not validated: one solid line
    assert "partOf" not in error["series"][0]


def test_a_run_of_hmasd_shows_its_rounds_and_folds_the_rest(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path, tensorboard=False) as metrics:
        for step in range(1000):
            metrics.record("Training/Episode_Reward", float(step), step)
            metrics.record("Skills/TeamSkill_0_Share", math.nan if step == 0 else 0.5, step)
    shown, folded = training(tmp_path)["parts"]
    (plot,) = shown["plots"]
    (line,) = plot["series"]
    assert len(line["x"]) <= POINTS
    assert (line["x"][0], line["y"][-1]) == (0, 999)
    assert folded["folded"]
    (other,) = folded["plots"][0]["series"]
    assert (other["name"], other["y"][0]) == ("TeamSkill_0_Share", None)


def test_a_run_of_evolution_shows_the_habits_of_each_kind_of_thread(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path, tensorboard=False) as metrics:
        for name in ("score", "moved/buyer/end", "moved/buyer/accept", "moved/goal/buy_0", "sure/buyer/end", "seats"):
            metrics.record(f"Evolution/{name}", 1.0, 60)
    shown, folded = training(tmp_path)["parts"]
    assert [(plot["title"], len(plot["series"])) for plot in shown["plots"]] == [
        ("Score of all seats (other worlds in each generation)", 1),
        ("What stands, from the start: buyer", 2),
        ("What stands, from the start: goal", 1),
        ("Worth of the best level in standard errors: buyer", 1),
    ]
    assert "By worlds" in shown["note"]
    assert [line["name"] for line in folded["plots"][0]["series"]] == ["seats"]


def test_a_picture_of_the_skills_in_the_run_is_on_the_page(tmp_path: Path) -> None:
    run = write_training(tmp_path / "run", [1.0])
    assert training(run)["skills"] is None
    assert "Skills" not in page_of(run, tmp_path)
    (run / "skills.png").write_bytes(b"the picture")
    picture = f'<img class="picture" src="data:image/png;base64,{base64.b64encode(b"the picture").decode()}"'
    page = page_of(run, tmp_path)
    assert page.count(picture) == page.count(picture[-24:]) == 1, "once, and not again in the data of the scripts"


def page_of(run: Path, folder: Path) -> str:
    assert main(["report", str(run), "-o", str(folder / "page.html")]) == 0
    return (folder / "page.html").read_text()


def test_a_folder_without_curves_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "na')
    with pytest.raises(ValueError, match="contains no curves"):
        training(tmp_path)
