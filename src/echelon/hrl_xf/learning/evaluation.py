"""A trained layer on worlds it has not seen, compared with predictors that learn nothing or less.

A figure alone says little: a label that leaks into the input gives a high accuracy. So every layer is compared with
controls, and L3 with a network that sees the last offer only: it must beat that to have learnt about negotiations.
"""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from echelon.hrl_xf.dataset.datasets import MacroDataset, MicroDataset, Rows, l4_of, macro_of, micro_of
from echelon.hrl_xf.dataset.goal_backfill import with_goals
from echelon.hrl_xf.dataset.split import Split, WorldSplit
from echelon.hrl_xf.dataset.tournament import TournamentData
from echelon.hrl_xf.layers.l3_play import View
from echelon.hrl_xf.layers.l3_situation import Mode
from echelon.hrl_xf.layers.rules import HeuristicCoordinator, HeuristicExecutor, HeuristicManager
from echelon.hrl_xf.layers.weight_files import layer_path, read_layer
from echelon.hrl_xf.learning import disagreement
from echelon.hrl_xf.learning.figures import (
    Figures,
    answer_figures,
    calibration,
    goal_errors,
    masked_mean,
    rank_correlation,
    yesterdays,
)
from echelon.hrl_xf.learning.fit import fit
from echelon.hrl_xf.learning.losses import l3_loss, l4_loss
from echelon.hrl_xf.learning.sources import L3Source, L4Source, situation_of
from echelon.hrl_xf.learning.task import FitSettings, FitTask, measure
from echelon.hrl_xf.networks.l2_manager import load_l2
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer, load_l3
from echelon.hrl_xf.networks.l4_coordinator import load_l4
from echelon.hrl_xf.options.train import EvaluateOptions
from echelon.hrl_xf.state.day_state import ANSWERS, REJECT
from echelon.runtime.arrays import Bools, Floats, Ints
from echelon.runtime.devices import device_of_layer, on_device

log = logging.getLogger(__name__)
BATCH = 4096


def _note(path: Path) -> dict[str, Any]:
    """The note about its training in a layer's file."""
    note: dict[str, Any] = json.loads(read_layer(path)[0]["note"])
    return note


def part(rows: Rows[Any], split: WorldSplit, which: str) -> Any:
    """The rows of one split; an empty one is an error."""
    found = rows.part(split, cast(Split, which))
    if not len(found):
        raise ValueError(f"the {which} split has no rows of these data; train with a ratio for it above 0")
    return found


# -- L2


def evaluate_l2(data: TournamentData, split: WorldSplit, options: EvaluateOptions) -> Figures:
    """Errors of goals in pieces and currency: the network, the training mean, yesterday's goal, the heuristic."""
    path = options.model_path or options.output_dir / "l2_bc"
    layer = load_l2(path, options.device)
    macro = macro_of(data)
    train, chosen = _goals(part(macro, split, "train")), part(macro, split, options.split)
    mean = masked_mean(train[0], train[1])
    target, mask, day = _goals(chosen)
    predictors = {
        "network": _predicted(chosen, layer),
        "training mean": np.broadcast_to(mean, target.shape),
        "yesterday's goal": yesterdays(target, day, chosen.log, mean),
        "heuristic L2": _predicted(chosen, HeuristicManager(options.horizon)),
    }
    return {name: goal_errors(predicted, target, mask) for name, predicted in predictors.items()}


def _goals(rows: MacroDataset) -> tuple[Floats, Bools, Ints]:
    batch = rows.batch(np.arange(len(rows)))
    return batch.goal.astype(np.float64), batch.goal_mask, batch.day


def _predicted(rows: MacroDataset, maker: Any) -> Floats:
    days = rows.data.tables.days
    at = range(0, len(rows), BATCH)
    return np.concatenate([maker.goals_of_days(days(rows.rows[i : i + BATCH])) for i in at]).astype(np.float64)


# -- L3


def evaluate_l3(data: TournamentData, split: WorldSplit, options: EvaluateOptions) -> Figures:
    """Answers and offers: the network, the most frequent answer, two networks that see less, L1 and the heuristic."""
    path = options.model_path or options.output_dir / "l3_bc"
    layer = load_l3(path, options.device)
    epochs = options.control_epochs or int(_note(path).get("epochs", 10))
    data = with_goals(data, "l2", options.output_dir / "l2_bc.safetensors", device=options.device)
    micro = micro_of(data)
    train, chosen = part(micro, split, "train"), part(micro, split, options.split)
    source, training = L3Source(chosen, layer.mode), L3Source(train, layer.mode)
    apart = by_configuration(chosen, layer.mode)
    figures: Figures = {"decisions": _decisions(source)}
    figures["network"] = network_figures(layer, source) | {"configurations": _each(layer, apart)}
    views: dict[str, View] = {"control: last token only": "last_token", "control: no history": "context"}
    val = micro.part(split, "val")
    validation = L3Source(val, layer.mode) if len(val) else None
    for name, view in views.items():
        control = _control(layer, view, (training, validation), epochs, options.seed)
        figures[name] = network_figures(control, source) | {"configurations": _each(control, apart)}
    figures["control: most frequent answer"] = frequent_figures(training, source)
    figures["L1"] = rule_figures(source, chosen, "l1")
    figures["heuristic L3"] = rule_figures(source, chosen, "heuristic")
    return figures


def by_configuration(rows: MicroDataset, mode: Mode) -> dict[str, L3Source]:
    """The decisions of each world configuration: a mean over few of them may depend on one."""
    names = np.array([record.config_id for record in rows.data.records])[rows.log]
    return {str(name): L3Source(rows.pick(np.flatnonzero(names == name)), mode) for name in np.unique(names)}


def _each(layer: TemporalDecisionTransformer, sources: dict[str, L3Source]) -> Figures:
    found = {name: measure(layer, source, l3_loss, BATCH) for name, source in sources.items()}
    shown = ("loss", "nll_op", "nll_day", "nll_dq", "nll_dp")
    return {name: {n: figures[n] for n in shown if n in figures} for name, figures in found.items()}


def _decisions(source: L3Source) -> Figures:
    """How many there are, and how many of them are targets: L1 forbids what the expert did in the others."""
    op, counts, offers = (source.column(name) for name in ("op", "op_counts", "offer_counts"))
    return {
        "n": len(op), "with a choice, expert's legal": float(counts.mean()),
        "offers that L3 can name": float(offers[op == REJECT].mean()) if (op == REJECT).any() else float("nan"),
    }  # fmt: skip


def _control(
    layer: TemporalDecisionTransformer, view: View, parts: tuple[L3Source, L3Source | None], epochs: int, seed: int
) -> TemporalDecisionTransformer:
    """The same network with less to see, trained as it was: the weights kept are the best by validation."""
    torch.manual_seed(seed)
    control = TemporalDecisionTransformer(**(layer.options | {"view": view})).to(device_of_layer(layer))
    settings = FitSettings(epochs=epochs, batch_size=512, lr=1e-3, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        for report in fit(FitTask("control", control, *parts, l3_loss, "control"), settings, Path(folder)):
            log.debug("%s", report.line())
    return control.eval()


@torch.inference_mode()
def network_figures(layer: TemporalDecisionTransformer, source: L3Source) -> Figures:
    """Likelihoods, accuracies, precision and recall, calibration; over decisions with a choice."""
    figures: Figures = measure(layer, source, l3_loss, BATCH)
    chosen, probability, label = [], [], []
    for at in source.epoch(BATCH, None):
        b = on_device(source.load(at), device_of_layer(layer))
        counts = b.rows.op_counts
        ops = cast(Any, layer(b.tokens, b.mask, b.rows.thread, b.rows.history, b.rows.inputs).parts["op"])
        chosen.append(ops.mode()[counts].cpu().numpy())
        probability.append(ops.probs[counts].cpu().numpy())
        label.append(b.rows.op[counts].cpu().numpy())
    picked, probs, said = np.concatenate(chosen), np.concatenate(probability).astype(np.float64), np.concatenate(label)
    figures["answers"] = answer_figures(picked, said)
    happened = said[:, None] == np.arange(len(ANSWERS))
    figures["calibration"] = calibration(probs.ravel(), happened.ravel())
    return figures


def frequent_figures(training: L3Source, source: L3Source) -> Figures:
    """The training set's shares of answers, among those that are legal."""
    op, counts = training.column("op"), training.column("op_counts")
    share = np.maximum(np.bincount(op[counts], minlength=3) / max(int(counts.sum()), 1), 1e-6)
    chosen, likelihood, label = [], [], []
    for at in source.epoch(BATCH, None):
        rows = source.load(at).rows
        keep = rows.op_counts.numpy()
        probs = share * rows.inputs.legal.ops().numpy()[keep]
        probs /= probs.sum(axis=1, keepdims=True)
        said = rows.op.numpy()[keep]
        chosen.append(probs.argmax(axis=1))
        likelihood.append(-np.log(probs[np.arange(len(said)), said]))
        label.append(said)
    answers = answer_figures(np.concatenate(chosen), np.concatenate(label))
    return {"nll_op": float(np.concatenate(likelihood).mean()), "acc_op": answers["accuracy"], "answers": answers}


def rule_figures(source: L3Source, rows: MicroDataset, rule: str) -> Figures:
    """Answers and offers of L1 or the heuristic against the expert's."""
    every = np.arange(len(rows))
    b = rows.batch(every)
    if rule == "l1":
        op, offer = b.decisions.l1_op, b.decisions.legal_baseline
    else:
        situation = situation_of(b, source.alpha(every))
        actions = HeuristicExecutor().act(None, situation)
        op, offer = actions.op, actions.offer
    counts, offers = source.column("op_counts"), source.column("offer_counts")
    answers = answer_figures(op[counts], b.decisions.op[counts])
    both = counts & offers & (op == REJECT)
    error = np.abs(b.decisions.offer[both] - offer[both])
    named = {"dq": error[:, 0], "dp": error[:, 2], "day": error[:, 1]}
    figures: Figures = {"acc_op": answers["accuracy"]}
    for name, e in named.items():
        figures |= {f"acc_{name}": float((e == 0).mean()), f"mae_{name}": float(e.mean())} if len(e) else {}
    return figures | {"answers": answers}


# -- L4


def evaluate_l4(data: TournamentData, split: WorldSplit, options: EvaluateOptions) -> Figures:
    """Cross-entropy and rank correlation with the teacher; also of uniform α and of the teacher itself."""
    layer = load_l4(options.model_path or options.output_dir / "l4_distill", options.device)
    data = with_goals(data, "l2", options.output_dir / "l2_bc.safetensors", device=options.device)
    source = L4Source(part(l4_of(data), split, options.split))
    teacher = HeuristicCoordinator()
    figures: Figures = {"sets": {"n": len(source)}, "network": measure(layer, source, l4_loss, BATCH)}
    sums = {"network": [0.0, 0, 0.0], "uniform": [0.0, 0, 0.0], "teacher": [0.0, 0, 0.0]}
    for at in source.epoch(BATCH, None):
        b = source.load(at)
        mask, alpha = b.mask.numpy(), b.alpha.numpy().astype(np.float64)
        arrays = [x.numpy() for x in (b.thread_feat, b.global_feat, b.days, b.role, b.mask)]
        made = {
            "network": layer.alpha(*arrays), "uniform": mask / mask.sum(axis=1, keepdims=True),
            "teacher": teacher.alpha(*arrays),
        }  # fmt: skip
        for name, found in made.items():
            _add_set_figures(sums[name], np.asarray(found, np.float64), alpha, mask)
    for name, (rank, ranked, entropy) in sums.items():
        mean_rank = rank / ranked if ranked else float("nan")
        figures.setdefault(name, {}).update(rank_correlation=mean_rank, cross_entropy=entropy / len(source))
    return figures


def _add_set_figures(sums: list[float], found: Floats, alpha: Floats, mask: Bools) -> None:
    sums[2] += float(-(alpha * np.log(np.maximum(found, 1e-12)) * mask).sum())
    for ours, theirs, there in zip(found, alpha, mask, strict=True):
        rank = rank_correlation(ours[there].round(9), theirs[there].round(9))
        if np.isfinite(rank):
            sums[0] += rank
            sums[1] += 1


# -- all together


def evaluate_disagreement(data: TournamentData, split: WorldSplit, options: EvaluateOptions) -> Figures:
    """The clone compared with its expert, in the expert's seat (see `disagreement`)."""
    l3 = load_l3(options.model_path or options.output_dir / "l3_bc")
    data = with_goals(data, "l2", options.output_dir / "l2_bc.safetensors", device=options.device)
    path = layer_path(options.output_dir / "l4_distill")
    l4 = load_l4(path) if path.exists() else HeuristicCoordinator()
    logs = np.unique(part(micro_of(data), split, options.split).log)
    return disagreement.figures(disagreement.compare(data, logs, options.data_dir, l3, l4))
