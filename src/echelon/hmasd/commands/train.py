"""`echelon hmasd train`: rounds, logs, checkpoints, evaluations; the same command again continues bit for bit."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from echelon.envs.vector import VectorEnv
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.background import BackgroundEvaluation, Weights
from echelon.hmasd.commands.export import export_curves
from echelon.hmasd.commands.learners import learners
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.evaluation import evaluate, use_env_options
from echelon.hmasd.learning.learner import UpdateStats
from echelon.hmasd.learning.shares import LocalShares, RemoteShares
from echelon.hmasd.learning.tags import round_tags
from echelon.hmasd.networks.sizes import Sizes, spec_from_json
from echelon.hmasd.options import TrainOptions
from echelon.hmasd.player import find_checkpoint
from echelon.hmasd.presets import for_environment
from echelon.hmasd.worlds import make_worlds
from echelon.onpolicy.groups import Groups
from echelon.onpolicy.loop import Round, TrainingLoop
from echelon.onpolicy.ppo import part_of_state
from echelon.runtime.board import should_start, tensorboard
from echelon.runtime.checkpoint import latest, load_checkpoint, save_checkpoint
from echelon.runtime.execution.executors import NamedExecutor, make_executor
from echelon.runtime.metrics import MetricsWriter, read_metrics, without_console_lines
from echelon.runtime.rundir import RunDir, open_run, read_config
from echelon.runtime.wandb_run import WandbRun, require_wandb

log = logging.getLogger(__name__)

EVALUATION = "evaluation_"  # in a checkpoint, before the step of weights that wait for their evaluation

MAY_CHANGE = (
    "model_path",
    "eval_executor",
    "keep_checkpoints",
    "executor",
    "env_workers",
    "device",
    "eval_every",
    "eval_episodes",
    "eval_greedy",
    "checkpoint_every",
    "wandb",
    "learners",
)
"""Options that change nothing that is learnt: a run may be resumed with another value."""
DEFAULTS = {"config": HMASDConfig().to_json()}
"""What an option was in a run of a version that did not have it."""


class Run:
    """One training: agent, worlds and loop, with what was done so far."""

    def __init__(self, options: TrainOptions, executor: NamedExecutor | None, groups: Groups | None = None) -> None:
        config = options.config
        with make_worlds(config, 1) as probe:
            if config.agent_ids is None:
                config = replace(config, agent_ids=agents_look_alike(probe))
            self.agent = HMASDAgent(config, probe.spec, options.device, groups)
        agent = self.agent
        self.worlds: LocalShares | RemoteShares
        if executor is None:
            self.worlds = LocalShares(config, agent.networks, lambda: agent.version, options.env_workers, groups)
        else:
            self.worlds = RemoteShares(config, agent.networks, lambda: agent.version, executor)
        self.loop: TrainingLoop[UpdateStats] = TrainingLoop(self.worlds, agent, config.total_steps, config.round_size)
        self.episodes = 0
        self.unmeasured: dict[int, Weights] = {}
        """Weights, by step, whose evaluation was lost with the process that made the loaded checkpoint."""

    def save(self, folder: Path, name: str, keep: int | None, waiting: Mapping[int, Weights] | None = None) -> Path:
        """A checkpoint of everything, with the weights whose evaluation is not done yet."""
        state = self.loop.state_dict()
        tensors = {"agent": part_of_state(state, "learner."), "worlds": part_of_state(state, "collector.")}
        tensors |= {f"{EVALUATION}{multiple}": weights for multiple, weights in (waiting or {}).items()}
        counters = {"env_steps": self.loop.env_steps, "rounds": self.loop.rounds, "episodes": self.episodes}
        return save_checkpoint(
            folder, name, tensors=tensors, state=counters, config=self.agent.header(), keep_last=keep
        )

    def load(self, path: Path) -> None:
        """Continue from a checkpoint; other shapes are an error that shows the difference."""
        saved = load_checkpoint(path)
        if "agent" not in saved.tensors or "worlds" not in saved.tensors:
            raise ValueError(f"{path} is a checkpoint, but not one of HMASD")
        theirs = HMASDConfig.from_json(saved.config["options"])
        self.agent.sizes.check_same(Sizes.of(spec_from_json(saved.config["spec"]), theirs), str(path))
        ours = self.agent.config
        same_worlds = (theirs.env, theirs.env_options, theirs.envs, theirs.collectors) == (
            ours.env, ours.env_options, ours.envs, ours.collectors,
        )  # fmt: skip
        self.agent.load_state_dict(saved.tensors["agent"])
        if same_worlds:
            self.worlds.load_state_dict(saved.tensors["worlds"])
        else:
            log.warning("%s has other worlds: its policies and counters are kept, its episodes are not", path)
        self.loop.env_steps, self.loop.rounds = saved.state["env_steps"], saved.state["rounds"]
        self.episodes = saved.state["episodes"]
        self.unmeasured = {
            int(name.removeprefix(EVALUATION)): weights
            for name, weights in saved.tensors.items()
            if name.startswith(EVALUATION)
        }


PROBES = 8


def agents_look_alike(probe: VectorEnv) -> bool:
    """Whether two agents can see the same when an episode begins: then nothing else distinguishes them."""
    for seed in range(PROBES):
        seen = probe.reset([seed])
        rows = [seen.observation[0, i, :width].tobytes() for i, width in enumerate(probe.spec.obs_dims)]
        present = [row for row, alive in zip(rows, seen.alive[0], strict=True) if alive]
        if len(set(present)) < len(present):
            return True
    return False


def run(options: TrainOptions) -> int:
    """The command."""
    torch.set_num_threads(1)
    env = for_environment(options.config.env).config.env  # in full: spread is simple_spread
    options = replace(options, config=replace(options.config, env=env))
    if options.eval_only:
        return evaluate_only(options)
    require_wandb(options.wandb)
    with learners(options, follow) as groups:
        if groups.rank == 0:
            lead(options, groups)
        else:
            follow(options, groups)
    return 0


def follow(options: TrainOptions, groups: Groups) -> None:
    """A learner that only collects and learns: the first one decides where to start, and writes what there is."""
    training = Run(options, None, groups)
    with closing(training.worlds):
        path = groups.exchange(None)[0]
        if path is not None:
            training.load(path)
        for done in training.loop:
            training.episodes += len(training.worlds.episodes.returns)
            if options.checkpoint_every and done.crossed(options.checkpoint_every) is not None:
                training.worlds.state_dict()  # the first learner saves all groups
        training.worlds.state_dict()


def lead(options: TrainOptions, groups: Groups) -> None:
    """The whole command, alone or as the first of several learners."""
    with ExitStack() as stack:
        if read_config(options.directory) is not None:
            open_directory(options)  # other options than the run's are refused before worlds are made
        if options.model_path is not None:
            find_checkpoint(options.model_path)
        executor = None if options.executor == "serial" else make_executor(options.executor)
        training = Run(options, executor, groups)
        stack.callback(training.worlds.close)
        folder = open_directory(options)  # nothing is written before the environment exists
        stack.enter_context(logs(folder, options))
        begin(training, folder, options, groups)
        resume_step = training.loop.env_steps if folder.resumed else None
        also = None if options.wandb == "off" else WandbRun(options.wandb, folder.path, run_options(options))
        metrics = stack.enter_context(MetricsWriter(folder.path, resume_step=resume_step, also=also))
        if should_start(options.tensorboard, options.no_tensorboard):
            stack.enter_context(tensorboard(folder.tensorboard, options.tensorboard_port))
        stack.callback(log.info, "curves: tensorboard --logdir %s", folder.tensorboard)
        train(training, folder, options, metrics)
    for kind in ("csv", "json"):
        export_curves(folder.path, folder.path / f"curves.{kind}")


def open_directory(options: TrainOptions) -> RunDir:
    """The run's directory, made or continued."""
    return open_run(options.directory, run_options(options), may_change=may_change(options), defaults=DEFAULTS)


def train(training: Run, folder: RunDir, options: TrainOptions, metrics: MetricsWriter) -> None:
    """Rounds until the end. Metrics, evaluations and checkpoints happen between rounds, when no work is half done."""
    evaluations = BackgroundEvaluation(options, metrics)
    try:
        start_missing_evaluations(training, folder, options, evaluations)
        started, first = time.perf_counter(), training.loop.env_steps
        for done in training.loop:
            training.episodes += len(training.worlds.episodes.returns)
            metrics.record_all(round_tags(done, training.worlds.episodes, training.agent.sizes), done.env_steps)
            progress(training, done, (done.env_steps - first) / (time.perf_counter() - started))
            evaluations.record()
            saved_at = done.crossed(options.checkpoint_every) if options.checkpoint_every else None
            if options.eval_every and (at := done.crossed(options.eval_every)) is not None:
                evaluations.start(training.agent, at)
            if saved_at is not None:
                name = f"hmasd_sync_{saved_at}"
                training.save(folder.checkpoints, name, options.keep_checkpoints, evaluations.waiting)
        evaluations.record(wait=True)
        path = training.save(folder.checkpoints, "hmasd_sync_final", options.keep_checkpoints)
        log.info("training is complete: %d steps, %s", training.loop.env_steps, path)
    finally:
        evaluations.close()


def begin(training: Run, folder: RunDir, options: TrainOptions, groups: Groups) -> None:
    """Load the run's own last checkpoint, or the one given, if there is any; other learners load the same."""
    config = options.config
    slots = config.samples_per_update // config.envs
    if config.skilled and config.k > slots:
        log.warning(
            "k=%d exceeds the %d steps of each world in a round, at whose end every choice of skills ends: skills last "
            "%d steps, in training and in use; use k of at most %d or rounds of at least %d samples",
            config.k, slots, config.played_k, slots, config.k * config.envs,
        )  # fmt: skip
    elif config.skilled and slots % config.k:
        suits = [k for k in range(2, slots + 1) if slots % k == 0]
        log.warning(
            "a round has %d steps of each world, which is not a multiple of k=%d: the last segment of a round is "
            "short; use k of %s", slots, config.k, ", ".join(map(str, suits)),
        )  # fmt: skip
    own = latest(folder.checkpoints)
    path = own if own is not None else options.model_path and find_checkpoint(options.model_path)
    groups.exchange(path)
    if path is not None:
        training.load(path)
        log.info("resuming from %s: %d steps", path, training.loop.env_steps)


def start_missing_evaluations(
    training: Run, folder: RunDir, options: TrainOptions, evaluations: BackgroundEvaluation
) -> None:
    """Measure random play, unless the run did; repeat evaluations lost with the process, with the weights kept."""
    if not options.eval_every:
        return
    known = read_metrics(folder.path)
    if "Eval/RandomReward" in known:
        evaluations.random_return = float(known["Eval/RandomReward"].values[-1])
    else:
        evaluations.start_random()
    measured = known.get("Eval/MeanReward")
    there = set() if measured is None else set(measured.steps.tolist())
    for multiple, weights in training.unmeasured.items():
        if multiple not in there:
            evaluations.start(training.agent, multiple, weights)


def progress(training: Run, done: Round[UpdateStats], rate: float) -> None:
    """One line per round."""
    total = training.loop.total_steps
    log.info(
        "progress: %d/%d (%.1f%%), updates: %d, episodes: %d, %.0f steps/s",
        done.env_steps, total, min(100 * done.env_steps / total, 100.0), done.index + 1, training.episodes, rate,
    )  # fmt: skip


def evaluate_only(options: TrainOptions) -> int:
    """`--eval-only`: no training, no run directory."""
    assert options.model_path is not None  # the options check it
    path = find_checkpoint(options.model_path)
    agent = HMASDAgent.load(path)
    given = options.config
    if given.env != agent.config.env:
        raise ValueError(f"{path} was trained in {agent.config.env}, not in {given.env}; leave --env out")
    if given.env_options != agent.config.env_options:
        use_env_options(agent, given.env_options)
    log.info("%s: %s", path, evaluate(agent, options.eval_episodes, options.config.seed, options.eval_greedy))
    return 0


def run_options(options: TrainOptions) -> dict[str, object]:
    """What a run's config.json holds."""
    values = {name: getattr(options, name) for name in MAY_CHANGE}
    return {
        **{name: str(value) if isinstance(value, Path) else value for name, value in values.items()},
        "config": options.config.to_json(),
    }


def may_change(options: TrainOptions) -> tuple[str, ...]:
    """Options that do not touch the result; a longer total does not either, unless something follows progress."""
    longer = () if options.config.follows_progress else ("config.total_steps",)
    return MAY_CHANGE + longer


@contextmanager
def logs(folder: RunDir, options: TrainOptions) -> Iterator[None]:
    """log.txt and the console at the level asked for; metrics have files of their own."""
    level = logging.getLevelNamesMapping()[options.log_level]
    figures = nullcontext() if options.log_level == "DEBUG" else without_console_lines()
    with folder.logging(level), figures:
        if not options.quiet:
            logging.getLogger("echelon").setLevel(level)  # until the run's log is closed
        yield
