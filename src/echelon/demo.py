"""`echelon demo`: the whole chain end to end, small, on real parts: collect, dataset, train, compete, report.

Each step is the command a user would run, so each goes on where it stopped, and so does the demo.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from echelon.hrl_xf.collect.folder import EXIT_SOME_FAILED
from echelon.hrl_xf.commands import collect, compete
from echelon.hrl_xf.commands import dataset as dataset_command
from echelon.hrl_xf.commands import train as train_command
from echelon.hrl_xf.options.collect import CollectOptions
from echelon.hrl_xf.options.compete import CompeteOptions
from echelon.hrl_xf.options.dataset import DatasetOptions
from echelon.hrl_xf.options.train import TrainOptions
from echelon.options import DemoOptions, ReportOptions
from echelon.reporting import command as report
from echelon.runtime.progress import minutes

log = logging.getLogger(__name__)

EXPERT = "PenguinAgent"
INTERRUPTED = 130


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    configs: int
    """world configurations to learn from"""
    experts: tuple[int, int, int]
    """of 2026, 2025 and 2024"""
    steps: int
    """days in a world"""
    epochs: tuple[int, int, int]
    """of L2, L3 and L4"""
    worlds: int
    """configurations to compete in"""
    field: str
    """who plays in the arena's other seats"""
    minutes: tuple[str, ...]
    """how long each step is likely to take on two cores"""


FULL = Scale(
    configs=8, experts=(2, 1, 1), steps=50, epochs=(40, 12, 6), worlds=20, field="SBD,Rohn,AS0,PenguinAgent",
    minutes=("about 2 minutes", "seconds", "about a minute", "about 2 minutes", "seconds"),
)  # fmt: skip
QUICK = Scale(
    configs=3, experts=(0, 1, 1), steps=6, epochs=(2, 1, 1), worlds=2, field="PenguinAgent,SyncRandomStdAgent",
    minutes=("seconds",) * 5,
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

    # -- the steps --

    def collect(self) -> int:
        of_2026, of_2025, of_2024 = self.scale.experts
        return collect.run(
            CollectOptions(
                configs=self.scale.configs, runs=1, max_top_2026=of_2026, max_top_2025=of_2025, max_top_2024=of_2024,
                steps=self.steps, output_dir=self.folder("collection"), parallelism=self.options.parallelism,
                resumable=True, foreground=True, auto_collect=False,
            )
        )  # fmt: skip

    def dataset(self) -> int:
        return dataset_command.run(
            DatasetOptions(
                data_dir=self.folder("collection"), agent_name=EXPERT, output_dir=self.folder("dataset"),
                num_workers=self.parsers,
            )
        )  # fmt: skip

    def train(self) -> int:
        l2, l3, l4 = self.scale.epochs
        return train_command.run(
            TrainOptions(
                data_dir=self.folder("collection"), output_dir=self.folder("training"), agent_name=EXPERT,
                l2_epochs=l2, l3_epochs=l3, l4_epochs=l4, num_workers=self.parsers,
            )
        )  # fmt: skip

    def compete(self) -> int:
        return compete.run(
            CompeteOptions(
                agent=competitors(self.folder("training")), against=f"{EXPERT},RandomStdAgent",
                worlds=self.scale.worlds, steps=self.steps, field=self.scale.field,
                output_dir=self.folder("arena"), parallelism=self.options.parallelism,
            )
        )  # fmt: skip

    def report(self) -> int:
        runs = tuple(self.folder(name) for name in ("arena", "training", "dataset", "collection"))
        return report.run(ReportOptions(runs=runs, output=self.folder("report.html")))


STEPS: tuple[tuple[str, Callable[[Demo], int]], ...] = (
    ("real SCML worlds, played by champions of 2024 to 2026, every decision recorded", Demo.collect),
    (f"what {EXPERT}, champion of 2024, saw and decided in them, as training data", Demo.dataset),
    ("three layers learn from it: L2 the day's goal, L3 the round's action, L4 who comes first", Demo.train),
    (f"the agent plays with them against {EXPERT} and a random agent, all in the same seats", Demo.compete),
    ("all of it on one page", Demo.report),
)


def run(options: DemoOptions) -> int:
    """Do the steps, one after the other; worlds that failed are reported and end nothing."""
    demo = Demo(options, QUICK if options.quick else FULL)
    started, worst = time.monotonic(), 0
    log.info(
        "Five steps%s; stop at any time, the same command goes on.", "" if options.quick else ", about five minutes"
    )
    for number, (what, do) in enumerate(STEPS, start=1):
        log.info("")
        log.info("Step %d of %d: %s (%s).", number, len(STEPS), what, demo.scale.minutes[number - 1])
        if number < len(STEPS):
            log.info("Then: %s.", STEPS[number][0])
        try:
            code = do(demo)
        except KeyboardInterrupt:
            log.info("stopped in step %d of %d; what is done is kept, the same command goes on", number, len(STEPS))
            return INTERRUPTED
        if code not in (0, EXIT_SOME_FAILED):
            return code
        worst = max(worst, code)
    log.info("")
    log.info("Done in %s. Open %s in a browser.", minutes(time.monotonic() - started), demo.folder("report.html"))
    log.info("Next: more worlds make a better agent; `echelon hrl collect --help`, then train and compete on them.")
    return worst


def competitors(training: Path) -> tuple[str, ...]:
    """The agent with the weights just trained, and with the bundled ones."""
    return f"just-trained=LitaAgentHRL:{training}", "bundled=LitaAgentHRL"
