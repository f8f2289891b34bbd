"""Options of `echelon hrl train` and `evaluate`. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.hrl_xf.options.history import HistoryOptions
from echelon.runtime.flags import Flag


def default_parallelism() -> str:
    """How worlds are run: the environment variable SCML_PARALLELISM, or all cores."""
    return os.environ.get("SCML_PARALLELISM") or "loky"


GoalSource = Literal["none", "v2", "l2"]
QTransform = Literal["none", "log1p", "sqrt"]


@dataclass(frozen=True)
class FitOptions:
    """How a layer is fitted, the same in every phase."""

    seed: int = 0
    """of initial weights and the order of batches"""
    average: Annotated[float, tyro.conf.arg(name="weight-average", aliases=["--average"])] = 0.99
    """L2, L3 and critic: the weights that are validated and saved are a running mean, each step keeps this share of it:
    0.99 is the mean of about the last hundred steps; 0: the last weights as they are"""
    save_every: int = 1
    """epochs between checkpoints that are kept; the best and the last are kept anyway"""
    checkpoint_seconds: float = 60.0
    """a long epoch is saved in between this often; the most that is lost when the machine dies"""
    log_every: Annotated[int, tyro.conf.arg(aliases=["--batch-log-every"])] = 0
    """batches between lines within an epoch; 0: one line per epoch"""
    early_stop: int = 0
    """epochs without better validation after which a phase ends; 0: never"""

    def __post_init__(self) -> None:
        if self.save_every < 1 or self.early_stop < 0:
            raise ValueError(
                f"--save-every {self.save_every} must be at least 1 and --early-stop {self.early_stop} not negative"
            )
        if not 0 <= self.average < 1:
            raise ValueError(f"--weight-average {self.average} must be 0 or more and less than 1")


@dataclass(frozen=True)
class TrainConfig(FitOptions):
    """How the three layers and the critic are trained. The command sets it by options, a script as an argument."""

    output_dir: Path = Path("training_runs/hrl_xf")
    """weights, checkpoints, metrics.jsonl, tb/ and world_split.json go here"""
    horizon: int = 40
    """days ahead that the features look"""
    l2_epochs: int = 40
    """epochs in all, those before a resume included"""
    l3_epochs: int = 20
    """the same for L3's cloning"""
    critic_epochs: int = 20
    """the same for the critic"""
    l3_awr_epochs: int = 5
    """the same for AWR"""
    l4_epochs: int = 10
    """the same for L4"""
    l2_batch_size: int = 256
    """days in a batch"""
    l3_batch_size: int = 512
    """decisions in a batch; whole threads, so a few more or less"""
    l4_batch_size: int = 256
    """sets of threads in a batch"""
    critic_batch_size: int = 512
    """days in a batch of the critic"""
    l2_lr: float = 1.5e-3
    """learning rate; a resumed run uses the one it is given"""
    l3_lr: float = 1e-3
    """the same for L3's cloning"""
    critic_lr: float = 1e-3
    """the same for the critic"""
    l3_awr_lr: float = 3e-4
    """the same for AWR"""
    l4_lr: float = 3e-3
    """the same for L4"""
    l2_q_transform: QTransform = "none"
    """how quantities are compared: as they are, or compressed, since a few are very large (log1p errs less relative to
    small quantities, more in pieces)"""
    l2_q_weight: float = 1.0
    """weight of quantities against prices"""
    awr_beta: float = 1.0
    """temperature of AWR in standard deviations of the advantage (by level of the chain): a decision one deviation
    better than expected weighs exp(1/beta) times one that was as expected; smaller trusts good outcomes more"""
    awr_max_weight: float = 20.0
    """the largest weight of a decision"""
    awr_lambda: float = 0.95
    """λ of the day's TD(λ) advantage: 1 counts what was earned to the end of the game, 0 the next day's value only"""
    device: str = "cpu"
    """where to train: cpu, cuda, cuda:1, mps …; layers of this size run best on cpu"""
    init_from: Path | None = None
    """a training's folder: the phases start from its weights instead of new ones, to continue with other data; a script
    loads them itself"""
    resume: bool = False
    """resume from the newest checkpoints in --output-dir; --no-resume removes them and starts the phases again"""
    check_goals: bool = False
    """refuse to resume L3 or L4 when the goals they see have changed since"""
    l2_resume_path: Path | None = None
    """resume from this checkpoint instead of the newest"""
    l3_bc_resume_path: Path | None = None
    """the same for L3's cloning"""
    critic_resume_path: Path | None = None
    """the same for the critic"""
    l3_awr_resume_path: Path | None = None
    """the same for AWR"""
    l4_resume_path: Path | None = None
    """the same for L4"""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if str(field.type).startswith("Path") and isinstance(value, str):  # as the guides' scripts write them
                object.__setattr__(self, field.name, Path(value))
        if not self.awr_beta > 0 or not 0 <= self.awr_lambda <= 1:
            raise ValueError(
                f"--awr-beta {self.awr_beta} must be above 0 and --awr-lambda {self.awr_lambda} within 0..1"
            )
        if self.init_from is not None and self.init_from.resolve() == self.output_dir.resolve():
            raise ValueError(
                f"--init-from {self.init_from} is the --output-dir itself, whose weights the training would replace; "
                "the same command without --init-from resumes it, for other data use another --output-dir"
            )

    @property
    def checkpoints(self) -> Path:
        return self.output_dir / "checkpoints"


@dataclass(frozen=True)
class TrainOptions:
    """Train L2, L3 and L4 offline on recorded experts. Stopped at any moment, the same command resumes.

    `echelon hrl train --data-dir tournament_history/hrl_data_…_std --output-dir training_runs/first`

    Phases run in order; L3 and L4 see the goals that the trained L2 predicts. `--l3-awr` adds advantage-weighted
    regression after cloning, and before it a critic of days if there is none. Epochs and learning rates may be changed
    between runs: a resumed training uses the new ones.
    """

    data_dir: Path
    """a collection's folder, or a parent of several"""
    phases: str = "l2,l3,l4"
    """which layers to train, in this order; `critic` before them trains the critic of days (on all agents' logs)"""
    l3_awr: Flag = False
    """after cloning, continue with advantage-weighted regression; the cloned weights are kept"""
    awr_agents: str | None = None
    """whose decisions AWR weighs: names with commas, or all; those that were cloned (--agent-name) if not given"""
    agent_name: str = "PenguinAgent"
    """whose decisions to learn: a class name, or its unique beginning; several separated by commas, or all"""
    val_ratio: float = 0.1
    """share of world configurations to validate on"""
    test_ratio: float = 0.05
    """share of world configurations to test on, once at the end"""
    split_seed: int = 0
    """another seed divides the configurations differently"""
    regen_split: Flag = False
    """divide again where world_split.json was made with other ratios or another seed"""
    l3_goal_backfill: GoalSource = "l2"
    """what L3 sees as goal: L2's predictions; v2 (labels that know the day) and none are for comparison"""
    l4_goal_source: Literal["v2", "l2"] = "l2"
    """what L4 sees as goal"""
    l2_model_path: Path | None = None
    """an L2 trained elsewhere, where l2 is not among the phases"""
    l2_in_days: Annotated[Flag, tyro.conf.arg(name="l2-stock-in-days", aliases=["--l2-in-days"])] = False
    """L2 sees stock and commitments in days of work, not as shares of the whole game's capacity"""
    l3_mode: Literal["residual", "direct"] = "residual"
    """residuals to L1's baseline (scheme E), or actions themselves (scheme F)"""
    l2_backfill_device: str = "cpu"
    """where L2 predicts goals for L3 and L4: any torch device"""
    l2_backfill_batch_size: int = 4096
    """days at once when L2 predicts goals"""
    num_workers: int | None = None
    """processes that parse logs; one per core if not given"""
    threads: int = 1
    """cores that torch uses: for networks of this size more help little, and on a busy machine they slow it down.
    Another number may change the last bits of the weights"""
    cache_dir: Path | None = None
    """where parsed logs are kept; default .hrl_cache in --data-dir"""
    stats_only: Flag = False
    """show what the data contain and how they are divided, and train nothing"""
    no_progress_bar: Flag = False
    """show no progress while logs are parsed"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """log errors only"""
    config: TrainConfig = dataclasses.field(default_factory=lambda: TrainConfig(resume=True, check_goals=True))
    history: HistoryOptions = dataclasses.field(default_factory=HistoryOptions)

    def __post_init__(self) -> None:
        names = self.phase_names
        known = ("critic", "l2", "l3", "l4")
        if not names or any(name not in known for name in names) or len(set(names)) < len(names):
            raise ValueError(f"--phases {self.phases!r} must name some of {','.join(known)}, each once")
        if list(names) != sorted(names):
            raise ValueError(
                f"--phases {self.phases!r} is out of order: L3 and L4 see the goals of the trained L2; use "
                f"--phases {','.join(sorted(names))}"
            )
        if self.l3_awr and "l3" not in names:
            raise ValueError("--l3-awr starts from a cloned L3; add l3 to --phases")
        if self.awr_agents is not None and not self.l3_awr:
            raise ValueError(f"--awr-agents {self.awr_agents} says whom AWR learns from; add --l3-awr, or leave it out")
        if "l2" in names and self.l2_model_path is not None:
            raise ValueError("--l2-model-path names an L2, but --phases trains one; leave out one of them")
        if self.threads < 1:
            raise ValueError(f"--threads {self.threads} must be at least 1")

    @property
    def phase_names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.phases.split(",") if name.strip())


@dataclass(frozen=True)
class EvaluateOptions:
    """Measure a trained layer in natural units and compare it with controls that learn nothing or less.

    `echelon hrl evaluate --layer l2 --split val --data-dir … --output-dir training_runs/first`
    """

    data_dir: Path
    """the data it was trained on (the split of worlds is read from --output-dir)"""
    output_dir: Path = Path("training_runs/hrl_xf")
    """the run: weights and world_split.json; figures go to evaluation_<layer>_<split>.json there"""
    layer: Literal["l2", "l3", "l4", "critic"] = "l2"
    """which layer; the critic is measured on the days of all agents of the logs"""
    disagreement: Flag = False
    """instead: put all layers into the expert's own seat and compare their answers, decision by decision: what L1
    forbids, what differs and how, what the reservation changes; figures go to disagreement_<split>.json"""
    split: Literal["train", "val", "test"] = "val"
    """on which worlds"""
    model_path: Path | None = None
    """other weights than the run's; for l3 e.g. l3_awr"""
    agent_name: str = "PenguinAgent"
    """whose decisions"""
    control_epochs: int | None = None
    """epochs for which L3's controls (last token only; no history) are trained; as many as the layer, if not given"""
    cache_dir: Path | None = None
    """where parsed logs are kept; default .hrl_cache in --data-dir"""
    num_workers: int | None = None
    """processes that parse logs; one per core if not given"""
    horizon: int = 40
    """days ahead that the features look"""
    device: str = "cpu"
    """where the layer and its controls run: any torch device"""
    seed: int = 0
    """of the controls"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """log errors only"""
