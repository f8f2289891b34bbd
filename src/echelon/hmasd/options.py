"""Options of `echelon hmasd …`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.hmasd.config import HMASDConfig
from echelon.runtime.flags import Flag

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
SkillChoice = Literal["coordinator", "random", "fixed"]
WandB = Literal["off", "offline", "online"]


@dataclass(frozen=True)
class TrainOptions:
    """Train HMASD (or MAPPO, IPPO, MAT) in synchronous, strictly on-policy rounds.

    `--env` or `--preset` comes with tuned options; all can be changed. The same command on the same directory
    resumes.
    """

    preset: str | None = None
    """tuned: alice_and_bob, overcooked, uav1, uav2, uav2-relay; spread and speaker_listener, of MPE; values of the
    documents: alice_and_bob-paper, overcooked-paper, uav1-as-given,
    uav2-as-given, uav2-relay-as-given; not given: the one of --env, if any"""
    config_file: Annotated[Path | None, tyro.conf.arg(name="config")] = None
    """a TOML or JSON file of options, or the config.json of a run; options given here on the command line come last"""
    output_dir: Path | None = None
    """the run's directory; not given: runs/hmasd/<preset or env>-<algorithm>-seed<seed>"""
    model_path: Path | None = None
    """a checkpoint to continue from (in a new directory), or to evaluate"""
    eval_only: Flag = False
    """evaluate --model-path and stop"""
    eval_every: int = 160_000
    """steps between evaluations: one whenever a multiple is crossed; 0: never"""
    eval_episodes: int = 4
    """episodes of one evaluation"""
    eval_greedy: bool = False
    """take the most probable skill and action in evaluations instead of drawing them, as in training"""
    eval_executor: str = "loky:1"
    """where evaluations run during training; serial: training waits for them"""
    checkpoint_every: int = 160_000
    """steps between checkpoints hmasd_sync_<steps>: one whenever a multiple is crossed; 0: only at the end"""
    keep_checkpoints: int | None = None
    """number of newest checkpoints to keep; not given: all"""
    executor: str = "serial"
    """where rounds are collected: serial, loky:2, dask, dask:tcp://host:8786; needs --collectors of 2 or more"""
    learners: int = 1
    """processes that collect and learn together, each with an equal share of the groups of --collectors; needs
    --group-gradients. The result does not depend on their number. On several machines: see docs/scaling-out.md"""
    device: str = "cpu"
    """torch device of the updates, such as cuda; collecting stays on the processor"""
    env_workers: int | None = None
    """processes of a third-party environment; not given: one per core"""
    tensorboard: Flag = False
    """start TensorBoard during the training, also without a terminal; in a terminal it is started by default"""
    no_tensorboard: Flag = False
    """do not start TensorBoard"""
    tensorboard_port: int = 6006
    """port of TensorBoard; the next free one if it is in use"""
    log_level: LogLevel = "INFO"
    """level of messages on the console and in log.txt"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """log errors only"""
    wandb: WandB = "off"
    """also log to Weights & Biases (extra echelon[wandb]); offline writes files for `wandb sync`"""
    config: HMASDConfig = field(default_factory=HMASDConfig)

    def __post_init__(self) -> None:
        for name in ("eval_every", "checkpoint_every"):
            if self.__dict__[name] < 0:
                raise ValueError(f"{name}={self.__dict__[name]} must not be negative; 0 turns it off")
        for name in ("eval_episodes", "learners"):
            if self.__dict__[name] < 1:
                raise ValueError(f"{name}={self.__dict__[name]} must be at least 1")
        if self.tensorboard and self.no_tensorboard:
            raise ValueError("--tensorboard and --no-tensorboard were both given; use one")
        if self.eval_only and self.model_path is None:
            raise ValueError("--eval-only needs --model-path: the checkpoint to evaluate")
        if self.learners > 1 and (not self.config.group_gradients or self.config.collectors % self.learners):
            raise ValueError(
                f"--learners {self.learners} share the groups of worlds; use --group-gradients --collectors "
                f"{self.learners} or a multiple"
            )
        if self.executor != "serial" and self.learners > 1:
            raise ValueError(f"--learners {self.learners} collect themselves; leave --executor {self.executor} out")
        if self.executor != "serial" and self.config.collectors == 1:
            raise ValueError(
                f"--executor {self.executor} with --collectors 1 would use one worker; use --collectors 2 or more"
            )

    @property
    def directory(self) -> Path:
        """Where the run lives."""
        if self.output_dir is not None:
            return self.output_dir
        name = self.preset or self.config.env.replace(":", ".")
        return Path("runs/hmasd") / f"{name}-{self.config.algorithm}-seed{self.config.seed}"


@dataclass(frozen=True)
class ModelOptions:
    """A trained agent and the worlds it plays in."""

    model_path: Path
    """a checkpoint, or a run's directory (its last checkpoint)"""
    greedy: bool = False
    """take the most probable skill and action instead of drawing them, as in training"""
    seed: int = 0
    """root of the episodes' random streams"""
    env_options: tuple[str, ...] = ()
    """options in which the worlds differ from those of the training, each as name=value, such as max_steps=5000"""


@dataclass(frozen=True)
class EvaluateOptions(ModelOptions):
    """Play test episodes with a trained agent."""

    episodes: int = 100
    """episodes to play"""
    skills: tuple[SkillChoice, ...] = ("coordinator",)
    """who chooses skills: coordinator; random: drawn evenly every k steps; fixed: one joint choice for
    all worlds and steps, the best of those tried in episodes of their own. Several are shown one below the other"""
    fixed_choices: int = 256
    """maximum of joint choices that `fixed` tries; if there are more, this many are drawn at random"""
    fixed_episodes: int = 32
    """episodes in which each of them is tried"""
    json_path: Path | None = None
    """also write the result here, every episode's return included"""

    def __post_init__(self) -> None:
        for name in ("episodes", "fixed_choices", "fixed_episodes"):
            if self.__dict__[name] < 1:
                raise ValueError(f"{name}={self.__dict__[name]} must be at least 1")
        if not self.skills:
            raise ValueError("--skills is empty; use coordinator, random, fixed, or several of them")


@dataclass(frozen=True)
class BenchOptions:
    """Train several algorithms in several environments with several seeds, and compare them.

    Every run is a directory of its own, as `echelon hmasd train` makes it. The same command again resumes what was
    interrupted, repeats what failed, and adds seeds, algorithms and environments that are new.
    """

    envs: str = "alice_and_bob"
    """environments, separated by commas: a preset's name, simple_spread, or package.module:factory"""
    algorithms: str = "hmasd,mappo"
    """algorithms, separated by commas: hmasd with the preset's options; mappo, ippo, mat with those of their papers"""
    seeds: int = 5
    """runs of every algorithm in every environment"""
    first_seed: int = 1
    """seeds are counted from here; choose others than those that options were tuned on"""
    sweep: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """an option of `echelon hmasd train` with the values to try, such as lambda_agent=0.02,0.2; may be repeated: all
    combinations are trained"""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """an option that all runs share, such as total_steps=500000; may be repeated"""
    output_dir: Path = Path("runs/bench")
    """the bench's directory"""
    executor: str = "serial"
    """where runs are trained, one task for each: serial, loky:2, dask, dask:tcp://host:8786"""
    eval_every: int | None = None
    """steps between two evaluations; not given: a twentieth of the training"""
    eval_episodes: int | None = None
    """episodes of one evaluation; not given: those of the preset"""
    metric: str | None = None
    """what is compared; not given: Eval/SuccessRate where the environment knows success, else Eval/MeanReward"""
    resamples: int = 2000
    """bootstrap resamples behind an interval"""
    wandb: WandB = "off"
    """also log every run to Weights & Biases (extra echelon[wandb]); offline writes files for `wandb sync`"""
    dry_run: Flag = False
    """list the runs and stop"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """log errors only"""

    def __post_init__(self) -> None:
        for name in ("seeds", "resamples"):
            if self.__dict__[name] < 1:
                raise ValueError(f"{name}={self.__dict__[name]} must be at least 1")
        if self.first_seed < 0:
            raise ValueError(f"first_seed={self.first_seed} must not be negative")
        for name in ("eval_every", "eval_episodes"):
            if self.__dict__[name] is not None and self.__dict__[name] < 1:
                raise ValueError(f"{name}={self.__dict__[name]} must be at least 1: evaluations are what is compared")


@dataclass(frozen=True)
class RenderOptions(ModelOptions):
    """Play one episode with a trained agent and keep it as a film, agents coloured by their skill.

    With `--skills` also a picture of what each skill does. Third-party worlds are made with render_mode=rgb_array.
    """

    output: Path = Path("episode.gif")
    """where the film goes: .gif, .webp, .png (animated), or .mp4 if imageio-ffmpeg is installed"""
    skills: Path | None = None
    """also draw here (.png or .svg) where each skill leads, how it acts, and when the coordinator chooses it"""
    max_steps: int = 200
    """maximum number of steps in the film"""
    every: int = 1
    """steps per frame"""
    fps: int = 10
    """frames per second"""


@dataclass(frozen=True)
class CurvesOptions:
    """Draw learning curves of several runs and seeds, and say how each seed ended."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """folders of runs; those that differ only in `-s<seed>` at the end of their name are one group"""
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("curves.svg")
    """the picture: .svg or .png"""
    metric: str | None = None
    """draw this one instead of success (or reward per step), discriminators and use of skills"""
    window: int = 1
    """points of the trailing mean that smooths curves"""

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("give at least one run's folder, e.g. `echelon hmasd curves runs/hmasd/* -o curves.svg`")
        if self.output.suffix not in (".svg", ".png"):
            raise ValueError(f"{self.output} must end in .svg or .png")
        if self.window < 1:
            raise ValueError(f"window={self.window} must be at least 1")


@dataclass(frozen=True)
class ExportOptions:
    """Write a run's curves as CSV or JSON."""

    run_dir: Path
    """the run"""
    output: Path
    """a file that ends in .csv or .json"""
