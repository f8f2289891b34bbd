"""A run of online training: its directory, rounds, validations, metrics and checkpoints.

The same options on the same directory resume after the last finished round.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from echelon.hrl_xf.online.judge import Judge
from echelon.hrl_xf.online.trainer import OnlineTraining, RoundStats
from echelon.hrl_xf.options.evolve import EvolveOptions
from echelon.hrl_xf.options.online import OnlineOptions
from echelon.onpolicy.loop import Round
from echelon.onpolicy.ppo import part_of_state
from echelon.runtime.checkpoint import latest, load_checkpoint, save_checkpoint
from echelon.runtime.execution.executors import NamedExecutor, make_executor
from echelon.runtime.metrics import MetricsWriter, without_console_lines
from echelon.runtime.progress import minutes
from echelon.runtime.rundir import RunDir, open_run

log = logging.getLogger(__name__)
MAY_CHANGE = ("parallelism", "world_timeout", "keep_checkpoints", "quiet", "output_dir")


def train_online(options: OnlineOptions) -> None:
    """Play and learn until all rounds are done; the best layers by validation are in the run's directory."""
    torch.set_num_threads(1)
    with ExitStack() as stack:
        executor = stack.enter_context(make_executor(options.parallelism))
        training = OnlineTraining(options, executor)
        folder = open_run(options.output_dir, run_options(options), may_change=MAY_CHANGE)
        stack.enter_context(folder.logging())
        resume(training, folder)
        step = training.loop.env_steps if folder.resumed else None
        stack.enter_context(without_console_lines())
        metrics = stack.enter_context(MetricsWriter(folder.path, resume_step=step))
        train(training, folder, executor, metrics)


def train(training: OnlineTraining, folder: RunDir, executor: NamedExecutor, metrics: MetricsWriter) -> None:
    """Rounds until the end; between them nothing is half done."""
    options = training.options
    judge = Judge(options, folder, executor, metrics) if options.validate_every else None
    if judge is not None:
        judge.begin(training.learner.averaged_weights(), resumed=training.learner.version > 0)
    began, first = time.perf_counter(), training.learner.version
    for done in training.loop:
        metrics.record_all(round_metrics(training, done), done.env_steps)
        say_round(training, done, (time.perf_counter() - began) / (done.index + 1 - first))
        if judge is not None and (done.index + 1) % options.validate_every == 0:
            judge.validate(training.learner.averaged_weights(), training.loop.env_steps, training.save_layers)
        save(training, folder)
    training.save_layers(folder.path / "latest")
    if not (folder.path / "l3_ppo.safetensors").exists():
        training.save_layers(folder.path)
    log.info("online training is complete: %d worlds, layers in %s", training.loop.env_steps, folder.path)


def round_metrics(training: OnlineTraining, done: Round[RoundStats]) -> dict[str, float]:
    """What a round shows: scores of draws, how far the policies moved, what the critic knows, how fast it went."""
    data, stats = training.collector.last, done.stats
    assert data is not None
    wishes = [seat.wishes for seat in data.seats]
    asked = max(sum(w.asked for w in wishes), 1)
    tags = {
        "Online/score": float(np.mean([w.score for w in wishes])),
        "Online/changed_by_reservation": sum(w.changed for w in wishes) / asked,
        "Online/kept_wishes": sum(len(w.wishes["moment"]) for w in wishes) / asked,
        "Online/fallbacks": float(sum(w.fallbacks for w in wishes)),
        "Online/failed_worlds": float(data.failed),
        "Critic/explained_variance": stats.critic.explained_variance,
        "Critic/loss": stats.critic.loss,
        "Online/l2_deviation": stats.l2_deviation,
        "Online/l4_deviation": stats.l4_deviation,
        "Throughput/worlds_per_minute": 60.0 * done.steps / max(done.collect_seconds, 1e-9),
        "Throughput/decisions_per_second": asked / max(done.collect_seconds, 1e-9),
        "Throughput/update_share": done.update_seconds / max(done.collect_seconds + done.update_seconds, 1e-9),
    }
    for place, name in enumerate(("first", "middle", "last")):
        scores = [w.score for w in wishes if w.place == place]
        if scores:
            tags[f"Online/score/{name}"] = float(np.mean(scores))
    for level, ppo in stats.levels.items():
        tags |= {
            f"PPO/{level}/approx_kl": ppo.approx_kl,
            f"PPO/{level}/clip_fraction": ppo.clip_fraction,
            f"PPO/{level}/entropy": ppo.entropy,
            f"PPO/{level}/ratio_error": ppo.ratio_error,
            f"PPO/{level}/epochs": float(ppo.epochs),
        }
    return tags | {f"PPO/{level}/clone_kl": kl for level, kl in stats.clone_kl.items()}


def say_round(training: OnlineTraining, done: Round[RoundStats], seconds: float) -> None:
    """One line per round."""
    data, options = training.collector.last, training.options
    assert data is not None
    score = float(np.mean([seat.wishes.score for seat in data.seats]))
    moved = " ".join(f"{level} {ppo.approx_kl:.4f}" for level, ppo in done.stats.levels.items()) or "critic only"
    log.info(
        "round %d/%d: score of draws %.3f, critic explains %.2f, KL %s, from the start %.3f, %.0f worlds/min, %s left",
        done.index + 1, options.rounds, score, done.stats.critic.explained_variance, moved,
        done.stats.clone_kl["l3"], 60.0 * done.steps / max(done.collect_seconds, 1e-9),
        minutes(seconds * (options.rounds - done.index - 1)),
    )  # fmt: skip


def save(training: OnlineTraining, folder: RunDir) -> None:
    """A checkpoint of everything after a round."""
    state = training.loop.state_dict()
    save_checkpoint(
        folder.checkpoints,
        f"round_{training.loop.rounds:05d}",
        tensors={"learner": part_of_state(state, "learner."), "worlds": part_of_state(state, "collector.")},
        state={"rounds": training.loop.rounds, "worlds": training.loop.env_steps},
        config=run_options(training.options),
        keep_last=training.options.keep_checkpoints,
    )


def resume(training: OnlineTraining, folder: RunDir) -> None:
    """Continue from the last checkpoint of the run, if there is one."""
    path = latest(folder.checkpoints)
    if path is None:
        return
    saved = load_checkpoint(path)
    training.learner.load_state_dict(saved.tensors["learner"])
    training.collector.load_state_dict(saved.tensors["worlds"])
    training.loop.rounds, training.loop.env_steps = saved.state["rounds"], saved.state["worlds"]
    log.info("resumed after round %d, %d worlds", training.loop.rounds, training.loop.env_steps)


def run_options(options: OnlineOptions | EvolveOptions) -> dict[str, object]:
    """What config.json holds."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(options).items()}
