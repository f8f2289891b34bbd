"""The table of commands. Help imports neither torch nor scml; a command loads its options, then its `run`."""

from __future__ import annotations

import difflib
import importlib
import io
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any, NamedTuple

PROGRAM = "echelon"


class Command(NamedTuple):
    """One command; `options` and `run` are `module:name`, loaded only when the command is used."""

    words: tuple[str, ...]
    summary: str
    options: str
    run: str
    plays_worlds: bool = False
    """worlds depend on how strings are hashed, so such a command fixes PYTHONHASHSEED first"""
    defaults: str | None = None
    """`module:name` of a function from the arguments to the options' defaults, where they depend on a preset"""


COMMANDS = (
    Command(
        ("demo",),
        "both systems end to end, small, in about three minutes",
        "echelon.options:DemoOptions",
        "echelon.demo.command:run",
        plays_worlds=True,
    ),
    Command(
        ("doctor",),
        "check this installation and say how to fix it",
        "echelon.options:DoctorOptions",
        "echelon.doctor:run",
    ),
    Command(
        ("report",),
        "one offline page about runs: standings, losses, negotiations, training curves",
        "echelon.options:ReportOptions",
        "echelon.reporting.command:run",
    ),
    Command(
        ("hrl", "collect"),
        "play real tournaments of expert agents and record them",
        "echelon.hrl_xf.options.collect:CollectOptions",
        "echelon.hrl_xf.commands.collect:run",
        plays_worlds=True,
    ),
    Command(
        ("hrl", "dataset"),
        "turn recorded tournaments into training data and summarise it",
        "echelon.hrl_xf.options.dataset:DatasetOptions",
        "echelon.hrl_xf.commands.dataset:run",
    ),
    Command(
        ("hrl", "play"),
        "play one world with LitaAgentHRL and explain its decisions day by day",
        "echelon.hrl_xf.options.play:PlayOptions",
        "echelon.hrl_xf.commands.play:run",
        plays_worlds=True,
    ),
    Command(
        ("hrl", "replay"),
        "play one world of a collection again, in the foreground",
        "echelon.hrl_xf.options.collect:ReplayOptions",
        "echelon.hrl_xf.commands.replay:run",
        plays_worlds=True,
    ),
    Command(
        ("hrl", "train"),
        "train L2, L3 and L4 offline on recorded experts",
        "echelon.hrl_xf.options.train:TrainOptions",
        "echelon.hrl_xf.commands.train:run",
    ),
    Command(
        ("hrl", "online"),
        "improve trained layers by playing: PPO in the simulator",
        "echelon.hrl_xf.options.online:OnlineOptions",
        "echelon.hrl_xf.commands.online:run",
        plays_worlds=True,
    ),
    Command(
        ("hrl", "evolve"),
        "improve trained layers by trying habits out in whole worlds",
        "echelon.hrl_xf.options.evolve:EvolveOptions",
        "echelon.hrl_xf.commands.evolve:run",
        plays_worlds=True,
    ),
    Command(
        ("hrl", "evaluate"),
        "measure a trained layer and compare it with controls",
        "echelon.hrl_xf.options.train:EvaluateOptions",
        "echelon.hrl_xf.commands.evaluate:run",
    ),
    Command(
        ("hrl", "compete"),
        "compare agents in the same seats of the same worlds",
        "echelon.hrl_xf.options.compete:CompeteOptions",
        "echelon.hrl_xf.commands.compete:run",
        plays_worlds=True,
    ),
    Command(
        ("hrl", "new-agent"),
        "make a folder with an agent of your own that begins as LitaAgentHRL",
        "echelon.hrl_xf.options.new_agent:NewAgentOptions",
        "echelon.hrl_xf.commands.new_agent:run",
    ),
    Command(
        ("hrl", "export"),
        "write an agent as one zip file that can be sent to the league",
        "echelon.hrl_xf.options.export:ExportOptions",
        "echelon.hrl_xf.commands.export:run",
    ),
    Command(
        ("hrl", "runs"),
        "list the collections",
        "echelon.hrl_xf.options.collect:RunsOptions",
        "echelon.hrl_xf.commands.runs:run",
    ),
    Command(
        ("hmasd", "train"),
        "train HMASD, MAPPO, IPPO or MAT in synchronous, strictly on-policy rounds",
        "echelon.hmasd.options:TrainOptions",
        "echelon.hmasd.commands.train:run",
        defaults="echelon.hmasd.presets:train_defaults",
    ),
    Command(
        ("hmasd", "evaluate"),
        "play test episodes with a trained agent",
        "echelon.hmasd.options:EvaluateOptions",
        "echelon.hmasd.commands.evaluate:run",
    ),
    Command(
        ("hmasd", "bench"),
        "train several algorithms in several environments with several seeds, and compare them",
        "echelon.hmasd.options:BenchOptions",
        "echelon.hmasd.commands.bench:run",
    ),
    Command(
        ("hmasd", "render"),
        "film an episode of a trained agent, coloured by skill",
        "echelon.hmasd.options:RenderOptions",
        "echelon.hmasd.commands.render:run",
    ),
    Command(
        ("hmasd", "curves"),
        "draw learning curves of several runs and seeds",
        "echelon.hmasd.options:CurvesOptions",
        "echelon.reporting.curves:run",
    ),
    Command(
        ("hmasd", "export"),
        "write a run's curves as CSV or JSON",
        "echelon.hmasd.options:ExportOptions",
        "echelon.hmasd.commands.export:run",
    ),
)


def load(path: str) -> Any:
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def overview(prefix: tuple[str, ...]) -> str:
    """The help of a group of commands."""
    rows = [c for c in COMMANDS if c.words[: len(prefix)] == prefix]
    width = max(len(" ".join(c.words)) for c in rows)
    lines = [f"usage: {' '.join((PROGRAM, *prefix))} COMMAND [options]", ""]
    if not prefix:
        lines += [
            "Hierarchical agents on one engine:",
            "  hrl     HRL-XF, for the Supply Chain Management League (SCML Standard)",
            "  hmasd   HMASD, multi-agent skill discovery on any PettingZoo ParallelEnv",
            "",
        ]
    lines += [f"  {' '.join(c.words):<{width}}  {c.summary}" for c in rows]
    lines += ["", f"`{PROGRAM} COMMAND --help` explains a command's options. New here? `{PROGRAM} demo`."]
    return "\n".join(lines)


def find(arguments: Sequence[str]) -> Command | None:
    return next((c for c in COMMANDS if tuple(arguments[: len(c.words)]) == c.words), None)


def not_found(arguments: Sequence[str]) -> int:
    """Help for a group, or the nearest command to a wrong one."""
    words = tuple(a for a in arguments if not a.startswith("-"))
    if any(c.words[: len(words)] == words for c in COMMANDS):
        print(overview(words))
        return 0 if {"-h", "--help"} & set(arguments) or not arguments else 2
    names = [" ".join(c.words) for c in COMMANDS]
    near = difflib.get_close_matches(" ".join(words[:2]), names, n=1, cutoff=0.3)
    hint = f"did you mean `{PROGRAM} {near[0]}`?" if near else f"`{PROGRAM} --help` lists the commands"
    print(f"{PROGRAM}: there is no command {' '.join(words)!r}; {hint}", file=sys.stderr)
    return 2


def fix_hash_seed(arguments: Sequence[str]) -> None:
    """Restart with PYTHONHASHSEED=0 if this process has another one: a running process cannot change it."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-P", "-m", PROGRAM, *arguments], environment)


def search_here() -> None:
    """Make a file in the working directory importable: `myagent.py` is the agent `myagent:MyAgent`.

    It is appended, so that no file there hides an installed package; worker processes get the same path.
    """
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def set_up_logging(quiet: bool) -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.setLevel(logging.ERROR if quiet else logging.NOTSET)  # a run's log.txt may lower the logger's own level
    logger = logging.getLogger("echelon")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.ERROR if quiet else logging.INFO)


@contextmanager
def option_errors_in_one_line() -> Iterator[None]:
    """Show an error of an options class as it is: tyro would wrap its ValueError into a box of several lines."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            yield
    except SystemExit as stop:
        cause = stop.__context__
        if type(cause).__name__ == "InstantiationError" and isinstance(vars(cause).get("arg"), str):
            raise ValueError(vars(cause)["message"]) from None
        if isinstance(cause, ValueError):
            raise cause from None
        sys.stderr.write(said.getvalue())
        raise


def fail(error: Exception) -> int:
    if os.environ.get("ECHELON_DEBUG"):
        traceback.print_exc()
    print(f"{PROGRAM}: {error}", file=sys.stderr)
    return 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (0 good, 2 wrong use, 3 done but some units of work failed)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = find(arguments)
    if command is None:
        return not_found(arguments)
    rest = arguments[len(command.words) :]
    import tyro  # here, so that the help of a group does not load it

    try:
        program = " ".join((PROGRAM, *command.words))
        known = tyro.MISSING_NONPROP if command.defaults is None else load(command.defaults)(rest)
        with option_errors_in_one_line():
            options = tyro.cli(
                load(command.options), args=rest, prog=program, default=known, config=(tyro.conf.OmitArgPrefixes,)
            )
        if command.plays_worlds:
            fix_hash_seed(arguments)
        search_here()
        set_up_logging(quiet=vars(options).get("quiet", False))
        return int(load(command.run)(options))
    except (ValueError, OSError) as error:
        return fail(error)
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
