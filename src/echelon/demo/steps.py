"""The demo's steps. Each one is the command a user would run, so each resumes where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.commands import train as hmasd_train
from echelon.hmasd.options import TrainOptions as HMASDOptions
from echelon.hmasd.presets import preset
from echelon.hmasd.skill_picture import draw_skills, watch_skills
from echelon.hrl_xf.commands import collect, compete
from echelon.hrl_xf.commands import dataset as dataset_command
from echelon.hrl_xf.commands import train as train_command
from echelon.hrl_xf.options.collect import CollectOptions
from echelon.hrl_xf.options.compete import CompeteOptions
from echelon.hrl_xf.options.dataset import DatasetOptions
from echelon.hrl_xf.options.train import TrainConfig, TrainOptions
from echelon.options import DemoOptions, ReportOptions
from echelon.reporting import command as report
from echelon.runtime.files import read_json
from echelon.runtime.film import write_picture

EXPERT, RANDOM = "PenguinAgent", "RandomStdAgent"
TRAINED, BUNDLED = "just-trained", "bundled"
RUNS = ("arena", "training", "skills", "dataset", "collection")
"""Folders of the demo that the page shows, in its order."""


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    configs: int
    """world configurations to learn from"""
    experts: tuple[int, int, int]
    """of 2026, 2025 and 2024"""
    steps: int
    """days per world"""
    epochs: tuple[int, int, int]
    """of L2, L3 and L4"""
    worlds: int
    """configurations to compete in"""
    field: str
    """who plays in the arena's other seats"""
    hmasd_steps: int
    """environment steps of the HMASD run"""


FULL = Scale(
    configs=8, experts=(2, 1, 1), steps=50, epochs=(40, 12, 6), worlds=20, field="SBD,Rohn,AS0,PenguinAgent",
    hmasd_steps=128_000,
)  # fmt: skip
QUICK = Scale(
    configs=3, experts=(0, 1, 1), steps=6, epochs=(2, 1, 1), worlds=2, field="PenguinAgent,SyncRandomStdAgent",
    hmasd_steps=6_400,
)  # fmt: skip


@dataclass(frozen=True)
class Demo:
    """The demo's folders and sizes."""

    options: DemoOptions
    scale: Scale

    @property
    def steps(self) -> int:
        return self.options.steps or self.scale.steps

    def folder(self, name: str) -> Path:
        return self.options.output_dir / name

    @property
    def parsers(self) -> int | None:
        return 1 if self.options.parallelism == "serial" else None

    def collect(self) -> int:
        of_2026, of_2025, of_2024 = self.scale.experts
        return collect.run(
            CollectOptions(
                configs=self.scale.configs, runs=1, max_top_2026=of_2026, max_top_2025=of_2025, max_top_2024=of_2024,
                steps=self.steps, output_dir=self.folder("collection"), parallelism=self.options.parallelism,
                resumable=True, foreground=True, auto_collect=False, quiet=True,
            )
        )  # fmt: skip

    def dataset(self) -> int:
        return dataset_command.run(
            DatasetOptions(
                data_dir=self.folder("collection"), agent_name=EXPERT, output_dir=self.folder("dataset"),
                num_workers=self.parsers, no_progress_bar=True,
            )
        )  # fmt: skip

    def train(self) -> int:
        l2, l3, l4 = self.scale.epochs
        return train_command.run(
            TrainOptions(
                data_dir=self.folder("collection"), agent_name=EXPERT, num_workers=self.parsers, no_progress_bar=True,
                config=TrainConfig(
                    output_dir=self.folder("training"), l2_epochs=l2, l3_epochs=l3, l4_epochs=l4, resume=True,
                    check_goals=True,
                ),
            )
        )  # fmt: skip

    def compete(self) -> int:
        agents = f"{TRAINED}=LitaAgentHRL:{self.folder('training')}", f"{BUNDLED}=LitaAgentHRL"
        return compete.run(
            CompeteOptions(
                agent=agents, against=f"{EXPERT},{RANDOM}", worlds=self.scale.worlds, steps=self.steps,
                field=self.scale.field, output_dir=self.folder("arena"), parallelism=self.options.parallelism,
                quiet=True,
            )
        )  # fmt: skip

    def hmasd(self) -> int:
        """Train, then draw what each skill does (`echelon hmasd render --skills`, without its film)."""
        folder = self.folder("skills")
        code = hmasd_train.run(self.hmasd_options())
        agent = HMASDAgent.load(folder)
        write_picture(draw_skills(agent, watch_skills(agent, seed=0)), folder / "skills.png")
        return code

    def hmasd_options(self) -> HMASDOptions:
        """The paper's values: skills differ after seconds. To solve the task takes longer, so it is not evaluated."""
        paper = preset("alice_and_bob-paper")
        return replace(
            paper, config=replace(paper.config, total_steps=self.scale.hmasd_steps), output_dir=self.folder("skills"),
            eval_every=0, no_tensorboard=True,
        )  # fmt: skip

    def report(self) -> int:
        runs = tuple(self.folder(name) for name in RUNS)
        return report.run(ReportOptions(runs=runs, output=self.folder("report.html")))

    # -- what the steps made --

    def collected(self) -> str:
        worlds = len(list((self.folder("collection") / "worlds").glob("[0-9]*.json")))
        logs = len(list((self.folder("collection") / "tracker_logs").glob("*.json*")))
        return f"{worlds} SCML worlds of champions, {logs} logs"

    def selected(self) -> str:
        summary = read_json(self.folder("dataset") / "summary.json")
        return f"{summary['decisions']:,} decisions of {EXPERT}, {summary['agent_days']:,} days"

    def trained(self) -> str:
        return "L2 {} epochs, L3 {}, L4 {}".format(*self.scale.epochs)

    def competed(self) -> str:
        worlds = len(list((self.folder("arena") / "worlds").glob("[0-9]*.json")))
        return f"{worlds} worlds: four competitors in the same seats"

    def discovered(self) -> str:
        return f"Alice_and_Bob, {self.scale.hmasd_steps:,} steps, and its skills"

    def reported(self) -> str:
        return f"{self.folder('report.html').stat().st_size / 1e6:.1f} MB, opens offline"


class Step(NamedTuple):
    """A step: its command, and what it made in a few words."""

    name: str
    do: Callable[[Demo], int]
    made: Callable[[Demo], str]


STEPS = (
    Step("collect", Demo.collect, Demo.collected),
    Step("dataset", Demo.dataset, Demo.selected),
    Step("train", Demo.train, Demo.trained),
    Step("compete", Demo.compete, Demo.competed),
    Step("hmasd", Demo.hmasd, Demo.discovered),
    Step("report", Demo.report, Demo.reported),
)
