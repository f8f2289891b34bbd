"""The table at the demo's end: what was learnt, and a figure to compare it with."""

from __future__ import annotations

import numpy as np

from echelon.demo.steps import BUNDLED, EXPERT, RANDOM, TRAINED, Demo
from echelon.hrl_xf.commands.evaluate import read_split
from echelon.hrl_xf.dataset.datasets import l4_of, micro_of
from echelon.hrl_xf.dataset.goal_backfill import with_goals
from echelon.hrl_xf.dataset.split import Split
from echelon.hrl_xf.dataset.tournament import open_tournament
from echelon.hrl_xf.learning.evaluation import BATCH, evaluate_l2, frequent_figures, part
from echelon.hrl_xf.learning.losses import l3_loss, l4_loss
from echelon.hrl_xf.learning.sources import L3Source, L4Source
from echelon.hrl_xf.learning.task import measure
from echelon.hrl_xf.networks.l3_executor import load_l3
from echelon.hrl_xf.networks.l4_coordinator import load_l4
from echelon.hrl_xf.options.train import EvaluateOptions
from echelon.runtime.files import read_json
from echelon.runtime.metrics import read_metrics

Row = tuple[str, str, str]
"""What, its figure, and what to compare it with."""

HEADINGS: Row = ("What was learnt", "here", "to compare with")
SPLIT: Split = "test"


def table(demo: Demo) -> list[Row]:
    """Six rows below their headings."""
    return [HEADINGS, *layers(demo), *agents(demo), skills(demo)]


def layers(demo: Demo) -> list[Row]:
    """The three trained layers in worlds that training has not seen."""
    collection, training = demo.folder("collection"), demo.folder("training")
    data = open_tournament(collection, EXPERT, demo.parsers, quiet=True)
    split = read_split(training)
    goals = evaluate_l2(data, split, EvaluateOptions(data_dir=collection, output_dir=training, split=SPLIT))
    error, mean = (goals[name]["Q"]["MAE"] for name in ("network", "training mean"))
    data = with_goals(data, "l2", training / "l2_bc.safetensors")
    decisions = {name: L3Source(part(micro_of(data), split, name)) for name in ("train", SPLIT)}
    same = measure(load_l3(training / "l3_bc"), decisions[SPLIT], l3_loss, BATCH)["acc_op"]
    frequent = frequent_figures(decisions["train"], decisions[SPLIT])["acc_op"]
    threads = L4Source(part(l4_of(data), split, SPLIT))
    first = measure(load_l4(training / "l4_distill"), threads, l4_loss, BATCH)["acc_first"]
    chance = float((1 / threads.load(np.arange(len(threads))).mask.sum(1)).mean())
    return [
        ("L2, a day's quantities", f"{error:.1f} pieces off", f"{mean:.1f} (training mean)"),
        (f"L3, {EXPERT}'s answer", f"{same:.0%} equal", f"{frequent:.0%} (most frequent)"),
        ("L4, teacher's first choice", f"{first:.0%} equal", f"{chance:.0%} (chance)"),
    ]


def agents(demo: Demo) -> list[Row]:
    """Scores in the arena (final balance / initial balance), with 95 % intervals."""
    standings = read_json(demo.folder("arena") / "standings.json")["competitors"]
    score = {line["competitor"]: line["scores"]["all"]["score"] for line in standings}
    rivals = f"{EXPERT} {score[EXPERT]['mean']:.2f}, random {score[RANDOM]['mean']:.2f}"
    named = {TRAINED: "Score with these weights", BUNDLED: "Score with bundled weights"}
    return [(text, "{mean:.2f} [{low:.2f}, {high:.2f}]".format(**score[name]), rivals) for name, text in named.items()]


def skills(demo: Demo) -> Row:
    """HMASD: how well the discriminator recognises an agent's skill by what it observes."""
    known = float(read_metrics(demo.folder("skills"))["Discriminator/IndividualAccuracy"].values[-1])
    chance = 1 / demo.hmasd_options().config.agent_skills
    return "HMASD, skill recognised", f"{known:.0%} of steps", f"{chance:.0%} (chance)"
