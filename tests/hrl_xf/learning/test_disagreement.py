"""A clone in its expert's seat: an agent agrees with itself; by hand, what differs first and what L1 forbids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.commands.evaluate import run
from echelon.hrl_xf.dataset.goal_backfill import with_goals
from echelon.hrl_xf.dataset.split import world_split
from echelon.hrl_xf.dataset.thread_tables import REPRESENTABLE, SAFE_DAY, SAFE_QUANTITY
from echelon.hrl_xf.dataset.tournament import open_tournament
from echelon.hrl_xf.learning.disagreement import KINDS, SAME, Compared, compare, figures, kinds, tables
from echelon.hrl_xf.networks.files import save_layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer, load_l3
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator, load_l4
from echelon.hrl_xf.options.train import EvaluateOptions
from echelon.hrl_xf.play.day import AnsweredCall
from echelon.hrl_xf.state.day_state import ACCEPT, END, REJECT
from echelon.hrl_xf.state.reservation import NOTHING, Wish
from echelon.hrl_xf.state.schema import encode_log
from echelon.runtime.arrays import Ints
from tests.hrl_xf.play.agent_cases import Watched, log_of, ours, play, variant


class Wishful(Watched, LitaAgentHRL):
    """Keeps its wishes by day, call and partner."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.wished: dict[tuple[int, int, str], Wish] = {}

    def note(self, day: int, call: int, decided: AnsweredCall) -> None:
        for partner, wish in zip(decided.partners, decided.wishes, strict=True):
            self.wished[day, call, partner] = wish


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layers with weights drawn at random, whose answers differ from L1's."""
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("layers")
    l3 = TemporalDecisionTransformer()
    with torch.no_grad():
        for head in (l3.op, l3.day, l3.q_head, l3.p_head):
            head.weight.normal_(std=0.1)
    save_layer(HorizonManagerPPO(), folder / "l2_bc")
    save_layer(l3, folder / "l3_bc")
    save_layer(GlobalCoordinator(), folder / "l4_distill")
    return folder


@pytest.fixture(scope="module")
def played(layers: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], Path]:
    """A world of the agent among champions: the agents, and the folder of their logs."""
    ours_here = variant(Wishful, l2=layers, l3=layers, l4=layers)
    world = play([ours_here, "PenguinAgent", "AS0"], n_steps=12, per_level=4, seed=8)
    folder = tmp_path_factory.mktemp("own_logs")
    for agent in ours(world):
        (folder / f"agent_{agent.id}_world_w.json").write_bytes(encode_log(log_of(agent)))
    return ours(world), folder


def test_an_agent_in_its_own_seat_wishes_what_it_wished(layers: Path, played: tuple[list[Any], Path]) -> None:
    agents, folder = played
    data = open_tournament(folder, "Variant", 1, quiet=True)
    data = with_goals(data, "l2", layers / "l2_bc.safetensors")
    c = compare(data, np.arange(len(data.records)), folder, load_l3(layers / "l3_bc"), load_l4(layers / "l4_distill"))
    wished: dict[tuple[str, int, int], list[Wish]] = {}
    for agent in agents:
        for (day, call, _), wish in agent.wished.items():
            wished.setdefault((agent.id, day, call), []).append(wish)
    equal = 0
    for i, (log, day, call) in enumerate(zip(c.log.tolist(), c.day.tolist(), c.call.tolist(), strict=True)):
        q, ahead, p = c.wish[i].tolist()
        wish = NOTHING if c.wish_op[i] == END else Wish(int(c.wish_op[i]), (q, day + ahead, p))
        equal += wish in wished[data.records[log].agent_id, day, call]
    assert len(c) > 150
    assert equal >= 0.99 * len(c), "but for a few that are equally probable"
    same = kinds(c.op, c.offer, c.answer_op, c.answer) == SAME
    assert same.mean() > 0.95, "what was said is what the reservation left, but for promises in other threads"
    settled = kinds(c.wish_op, c.wish, c.answer_op, c.answer) != SAME
    assert settled.any()
    assert figures(c)["outside L1"]["all"]["offers"]["outside"] == 0, "our agent stays inside"


def test_the_command_writes_and_shows_every_table(
    layers: Path, played: tuple[list[Any], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, folder = played
    out = tmp_path / "run"
    out.mkdir()
    for path in layers.glob("*.safetensors"):
        (out / path.name).write_bytes(path.read_bytes())
    world_split(out, ["c"], val_ratio=0.0, test_ratio=0.0, seed=0)
    caplog.set_level("INFO")
    options = EvaluateOptions(
        data_dir=folder, output_dir=out, agent_name="Variant", split="train", disagreement=True, num_workers=1
    )
    assert run(options) == 0
    found = json.loads((out / "disagreement_train.json").read_text())
    assert found["agreement inside L1"]["all"]["answer"] > 0.9
    assert "The expert's offers outside L1" in caplog.text


def compared(*rows: tuple[Any, ...]) -> Compared:
    """Rows of (day, call, seller, l1_rules, expert's op and offer, clone's wish op and offer, answer op and offer)."""
    names = ("day", "call", "seller", "l1_rules", "op", "offer", "wish_op", "wish", "answer_op", "answer")
    columns = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    zeros: Ints = np.zeros(len(rows), np.int64)
    return Compared(log=zeros, place=zeros, **columns)


NONE = (0, 0, 0)


def test_what_differs_first_is_named() -> None:
    base = (5, 1, 10)  # quantity, days ahead, price
    pairs = [
        (REJECT, base, REJECT, base, "the same"), (ACCEPT, base, REJECT, base, "ACCEPT → REJECT"),
        (REJECT, base, END, NONE, "REJECT → END"), (REJECT, base, REJECT, (4, 0, 9), "offer: earlier day"),
        (REJECT, base, REJECT, (6, 1, 9), "offer: more pieces"),
        (REJECT, base, REJECT, (5, 1, 9), "offer: lower price"),
    ]  # fmt: skip
    op, offer, other_op, other = (np.array(x) for x in list(zip(*pairs, strict=True))[:4])
    assert [KINDS[i] for i in kinds(op, offer, other_op, other)] == [pair[4] for pair in pairs]


def test_figures_by_hand() -> None:
    all_rules, no_day = REPRESENTABLE, REPRESENTABLE & ~SAFE_DAY
    base, more = (5, 1, 10), (7, 1, 10)
    c = compared(
        (0, 0, 1, all_rules, REJECT, base, REJECT, base, REJECT, base),
        (0, 1, 1, all_rules, REJECT, base, REJECT, more, REJECT, base),  # the reservation brings it back
        (0, 2, 1, all_rules, ACCEPT, base, REJECT, base, REJECT, base),  # later than the first difference
        (1, 0, 1, no_day, REJECT, base, REJECT, base, END, NONE),  # outside: does not count for agreement
        (1, 0, 0, all_rules & ~SAFE_QUANTITY, ACCEPT, base, END, NONE, END, NONE),
        (1, 1, 0, 0, END, NONE, END, NONE, END, NONE),
    )
    found = figures(c)
    sold = found["outside L1"]["sell, first"]
    assert sold["offers"]["outside"] == pytest.approx(1 / 3)
    assert sold["offers"]["day"] == pytest.approx(1 / 3)
    assert sold["offers"]["quantity"] == 0
    assert found["outside L1"]["buy, first"]["accepts"] == {
        "n": 1, "outside": 1.0, "day": 0.0, "quantity": 1.0, "money": 0.0, "price": 0.0, "residual": 0.0,
        "no baseline": 0.0,
    }  # fmt: skip
    agreed = found["agreement inside L1"]["sell, first"]
    assert (agreed["n"], agreed["both offer"]) == (3, 2)
    assert agreed["answer"] == pytest.approx(2 / 3)
    assert (agreed["quantity"], agreed["day"], agreed["more pieces"]) == (0.5, 1.0, 1.0)
    assert found["first difference of a day"]["all"] == {"n": 1, "offer: more pieces": 1.0}
    held = found["reservation"]["sell, first"]
    assert (held["n"], held["changed"]) == (4, 0.5)
    assert (held["as the expert, before"], held["after"]) == (0.5, 0.5)
    assert held["offer: fewer pieces"] == held["REJECT → END"] == 0.25
    assert any("offer: more pieces 1.000" in line for line in tables(found))
