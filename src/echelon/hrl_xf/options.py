"""Options of the `echelon hrl …` commands. Each docstring below an option is its `--help`; imports stay light."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from echelon.hrl_xf import roster
from echelon.hrl_xf.history_options import HistoryOptions

Flag = tyro.conf.FlagCreatePairsOff[bool]
CollectField = Literal["standard", "league", "champions"]


def default_parallelism() -> str:
    """What the environment says of how to run worlds, else all cores."""
    return os.environ.get("SCML_PARALLELISM") or "loky"


@dataclass(frozen=True)
class CollectOptions:
    """Play real SCML Standard tournaments of expert agents on all cores and keep what every agent saw and did.

    Small and in sight: `echelon hrl collect --configs 1 --runs 1 --steps 50 --foreground`.

    Interrupted? Give the same command with `--resumable` and the same `--output-dir`.
    """

    configs: int = 20
    """world configurations: each has its own factories, prices and exogenous contracts"""
    runs: int = 2
    """how often each world is played, with other random numbers"""
    field: CollectField = "standard"
    """who shares a world. standard: all competitors, the best of each year and two random agents, and scml's default
    agents in the seats that are left. league: four of the best of each year (--n-competitors-per-world), scml's default
    agents elsewhere, as in the league. champions: the best of each year in every seat"""
    max_top_2026: int | None = None
    """how many of the best 2026 agents take part; 0 in the standard field, else the six finalists if not given"""
    max_top_2025: int = 5
    """how many of the best 2025 agents take part"""
    max_top_2024: int = 5
    """how many of the 2024 finalists take part"""
    add: tuple[str, ...] = ()
    """more competitors: names of the roster (LitaAgentRules …) or module:Class; the module may be a file here"""
    n_competitors_per_world: int | None = None
    """competitors in one world; if not given all of them, or four with --field league and champions"""
    max_worlds_per_config: int | None = None
    """limit of worlds for each configuration; each rotation of seats needs one world a competitor"""
    target_worlds: int | None = None
    """about how many worlds in all; needs --n-competitors-per-world"""
    round_robin: bool = True
    """every combination of competitors meets; otherwise they are divided into groups at random, which is faster"""
    steps: int | None = None
    """days in a world; drawn from 50..200 for each configuration if not given"""
    track_only_penguin: Flag = False
    """record PenguinAgent only: much smaller logs, enough to clone that expert"""
    track: tuple[str, ...] = ()
    """record only these agents (class names); the whole field if not given"""
    no_csv: Flag = False
    """leave out the tables that training does not read (contracts, per-agent and per-type statistics)"""
    negotiations_csv: Flag = False
    """also write negotiations.csv at the end, from the logs: a line for each negotiation of the tracked agents"""
    resumable: Flag = False
    """go on in --output-dir: play exactly the worlds that are missing there"""
    output_dir: Path | None = None
    """where results go; default tournament_history/hrl_data_<timestamp>_std"""
    parallelism: str = dataclasses.field(default_factory=default_parallelism)
    """serial | loky[:workers or :fraction] | parallel[:workers] | dask[:scheduler address]; if not given, what the
    environment variable SCML_PARALLELISM says, else loky"""
    foreground: Flag = False
    """stay in the terminal; otherwise the run detaches and writes to log.txt"""
    auto_collect: bool = True
    """register the run in tournament_history/index.json (see `echelon hrl runs`)"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """say nothing but errors"""
    seed: int = 0
    """the same seed and options give the same logs, with any number of workers"""
    world_timeout: float = 1800.0
    """seconds after which a world is given up and recorded under failed/"""
    compress: Flag = False
    """write logs as .json.gz: a tenth of the size, a little slower"""
    fail_fast: Flag = False
    """stop at the first world that fails"""

    def __post_init__(self) -> None:
        for name in ("configs", "runs"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} {getattr(self, name)} must be at least 1")
        for name in ("max_top_2026", "max_top_2025", "max_top_2024"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"--{name.replace('_', '-')} {getattr(self, name)} must not be negative")
        if self.steps is not None and self.steps < 5:
            raise ValueError(f"--steps {self.steps} is too short: a chain of four levels needs 5 days; use at least 5")
        if self.world_timeout <= 0:
            raise ValueError(f"--world-timeout {self.world_timeout} must be positive")
        if self.seed < 0:
            raise ValueError(f"--seed {self.seed} must not be negative")
        if self.target_worlds is not None and self.n_competitors_per_world is None:
            raise ValueError(
                f"--target-worlds {self.target_worlds} needs --n-competitors-per-world to be turned into "
                "worlds per configuration; add e.g. --n-competitors-per-world 4"
            )
        if self.target_worlds is not None and self.max_worlds_per_config is not None:
            raise ValueError("--target-worlds and --max-worlds-per-config say the same thing twice; give one of them")
        if self.track and self.track_only_penguin:
            raise ValueError("--track and --track-only-penguin exclude each other; give one of them")

    @property
    def competitors(self) -> list[str]:
        """Who takes part."""
        of_2026 = self.max_top_2026 if self.max_top_2026 is not None else 0 if self.field == "standard" else 6
        names = roster.best(of_2026, self.max_top_2025, self.max_top_2024)
        names += roster.BASELINES if self.field == "standard" else ()
        added = (name.replace(":", ".") for name in self.add)
        return [*names, *(name for name in added if name not in names)]

    @property
    def tracked_agents(self) -> tuple[str, ...]:
        """Class names to record; empty for the whole field."""
        return ("PenguinAgent",) if self.track_only_penguin else self.track


@dataclass(frozen=True)
class RunsOptions:
    """List the collections registered in tournament_history/index.json."""

    history: Path = Path("tournament_history")
    """folder that holds index.json"""


@dataclass(frozen=True)
class ReplayOptions:
    """Play one world of a collection or of an arena again, in the foreground, and show what happens.

    The world is made anew from the folder's options and seed; nothing in the folder is changed.
    """

    run: tyro.conf.Positional[Path]
    """a folder that `collect` or `compete` wrote"""
    world: int
    """the world's number, as in worlds.json and in the names under failed/; of an arena: the configuration's"""
    competitor: str | None = None
    """of an arena: the label of who plays in the focal seats"""


@dataclass(frozen=True)
class DatasetOptions:
    """Turn recorded tournaments into training data: parsed once, opened in a moment ever after.

    `echelon hrl dataset --data-dir tournament_history/hrl_data_…_std --agent-name PenguinAgent`

    Writes world_split.json, summary.json and dataset.html (plots). New logs are added when the command runs again.
    """

    data_dir: Path
    """a collection's folder, or a parent of several"""
    agent_name: str = "PenguinAgent"
    """whose decisions to learn: a class name, or the beginning of one if only one begins so; several with commas, or
    all"""
    output_dir: Path | None = None
    """where split, summary and plots go; default hrl_dataset in --data-dir"""
    cache_dir: Path | None = None
    """where parsed logs are kept; default .hrl_cache in --data-dir"""
    num_workers: int | None = None
    """processes that parse logs; one a core if not given"""
    val_ratio: float = 0.1
    """share of world configurations to validate on"""
    test_ratio: float = 0.05
    """share of world configurations to test on"""
    split_seed: int = 0
    """another seed divides the configurations otherwise"""
    regen_split: Flag = False
    """divide anew where world_split.json was made with other ratios or another seed"""
    strict: Flag = False
    """stop at the first log that cannot be used; otherwise it is named, counted and left out (exit code 3)"""
    horizon: int = 40
    """days ahead that the features look"""
    no_progress_bar: Flag = False
    """show no progress"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """say nothing but errors"""

    def __post_init__(self) -> None:
        if self.num_workers is not None and self.num_workers < 1:
            raise ValueError(f"--num-workers {self.num_workers} must be at least 1")
        if not 1 <= self.horizon <= 200:
            raise ValueError(f"--horizon {self.horizon} is not within 1..200 days")


GoalSource = Literal["none", "v2", "l2"]


@dataclass(frozen=True)
class TrainOptions:
    """Train L2, L3 and L4 offline on recorded experts. Stopped at any moment, the same command goes on.

    `echelon hrl train --data-dir tournament_history/hrl_data_…_std --output-dir training_runs/first`

    Phases run in order; L3 and L4 see the goals that the trained L2 predicts. `--l3-awr` adds advantage-weighted
    regression after cloning, and before it a critic of days if there is none. Epochs and learning rates may be changed
    between runs: training then goes on with them.
    """

    data_dir: Path
    """a collection's folder, or a parent of several"""
    output_dir: Path = Path("training_runs/hrl_xf")
    """weights, checkpoints, metrics.jsonl, tb/ and world_split.json go here"""
    phases: str = "l2,l3,l4"
    """which layers to train, in this order; `critic` before them trains the critic of days (on all agents' logs)"""
    l3_awr: Flag = False
    """after cloning, go on with advantage-weighted regression; the cloned weights stay"""
    awr_agents: str | None = None
    """whose decisions AWR weighs: names with commas, or all; those that were cloned (--agent-name) if not given"""
    agent_name: str = "PenguinAgent"
    """whose decisions to learn: a class name, or the beginning of one if only one begins so; several with commas, or
    all"""
    val_ratio: float = 0.1
    """share of world configurations to validate on"""
    test_ratio: float = 0.05
    """share of world configurations to test on, once at the end"""
    split_seed: int = 0
    """another seed divides the configurations otherwise"""
    regen_split: Flag = False
    """divide anew where world_split.json was made with other ratios or another seed"""
    l3_goal_backfill: GoalSource = "l2"
    """what L3 sees as goal: L2's predictions; v2 (labels that know the day) and none are for comparison"""
    l4_goal_source: Literal["v2", "l2"] = "l2"
    """what L4 sees as goal"""
    init_from: Path | None = None
    """a training's folder: the phases start from its weights instead of new ones, for going on with other data"""
    l2_model_path: Path | None = None
    """an L2 trained elsewhere, where l2 is not among the phases"""
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
    average: float = 0.99
    """L2, L3 and critic: the weights that are validated and saved are a running mean, each step keeps this share of it;
    0: the last weights as they are"""
    l2_q_transform: Literal["none", "log1p", "sqrt"] = "none"
    """how quantities are compared: as they are, or tamed, since a few are very large (log1p errs less relative to
    small quantities, more in pieces)"""
    l2_q_weight: float = 1.0
    """weight of quantities against prices"""
    l2_in_days: Flag = False
    """L2 sees stock and commitments in days of work, not as shares of the whole game's capacity"""
    l3_mode: Literal["residual", "direct"] = "residual"
    """residuals to L1's baseline (scheme E), or actions themselves (scheme F)"""
    awr_beta: float = 1.0
    """temperature of AWR in standard deviations of the advantage (by level of the chain): a decision one deviation
    better than expected weighs exp(1/beta) times one that was as expected, at most 20; smaller trusts good outcomes
    more"""
    awr_lambda: float = 0.95
    """λ of the day's TD(λ) advantage: 1 counts what was earned to the end of the game, 0 the next day's value only"""
    l2_backfill_device: str = "cpu"
    """where L2 predicts goals for L3 and L4: any torch device"""
    l2_backfill_batch_size: int = 4096
    """days at once when L2 predicts goals"""
    device: str = "cpu"
    """where to train: cpu, cuda, cuda:1, mps …; layers this small are made for cpu"""
    save_every: int = 1
    """epochs between checkpoints that are kept; the best and the last are kept anyway"""
    checkpoint_seconds: float = 60.0
    """a long epoch is saved in between this often; what is lost when the machine dies"""
    log_every: Annotated[int, tyro.conf.arg(aliases=["--batch-log-every"])] = 0
    """batches between lines within an epoch; 0: one line an epoch"""
    early_stop: int = 0
    """epochs without better validation after which a phase ends; 0: never"""
    num_workers: int | None = None
    """processes that parse logs; one a core if not given"""
    threads: int = 1
    """cores that torch uses: for networks this small, more help little, and on a busy machine they harm. Another
    number may change the last bits of the weights"""
    cache_dir: Path | None = None
    """where parsed logs are kept; default .hrl_cache in --data-dir"""
    horizon: int = 40
    """days ahead that the features look"""
    stats_only: Flag = False
    """say what the data hold and how they are divided, and train nothing"""
    no_resume: Flag = False
    """begin the phases anew; their checkpoints in --output-dir are removed"""
    no_progress_bar: Flag = False
    """show no progress while logs are parsed"""
    seed: int = 0
    """of initial weights and the order of batches"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """say nothing but errors"""
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
        if not self.awr_beta > 0 or not 0 <= self.awr_lambda <= 1:
            raise ValueError(
                f"--awr-beta {self.awr_beta} must be above 0 and --awr-lambda {self.awr_lambda} within 0..1"
            )
        if self.init_from is not None and self.init_from.resolve() == self.output_dir.resolve():
            raise ValueError(
                f"--init-from {self.init_from} is the --output-dir itself, whose weights the training would replace; "
                "the same command without --init-from resumes it, for other data use another --output-dir"
            )
        if "l2" in names and self.l2_model_path is not None:
            raise ValueError("--l2-model-path names an L2, but --phases trains one; leave out one of them")
        if self.threads < 1:
            raise ValueError(f"--threads {self.threads} must be at least 1")
        if not 0 <= self.average < 1:
            raise ValueError(f"--average {self.average} must be 0 or more and less than 1")

    @property
    def phase_names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.phases.split(",") if name.strip())


@dataclass(frozen=True)
class EvaluateOptions:
    """How good a trained layer is, in natural units and beside controls that learn nothing or less.

    `echelon hrl evaluate --layer l2 --split val --data-dir … --output-dir training_runs/first`
    """

    data_dir: Path
    """the data it was trained on (the split of worlds is read from --output-dir)"""
    output_dir: Path = Path("training_runs/hrl_xf")
    """the run: weights and world_split.json; figures go to evaluation_<layer>_<split>.json there"""
    layer: Literal["l2", "l3", "l4", "critic"] = "l2"
    """which layer; the critic is judged on the days of all agents of the logs"""
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
    """processes that parse logs; one a core if not given"""
    horizon: int = 40
    """days ahead that the features look"""
    device: str = "cpu"
    """where the layer and its controls run: any torch device"""
    seed: int = 0
    """of the controls"""
    quiet: Annotated[Flag, tyro.conf.arg(aliases=["-q"])] = False
    """say nothing but errors"""
