"""`echelon doctor`: what works here, what does not, and the command that fixes it."""

from __future__ import annotations

import importlib
import logging
import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from echelon.hrl_xf.competitors import roster
from echelon.options import DoctorOptions
from echelon.runtime.execution.executors import make_executor, n_workers

log = logging.getLogger(__name__)

_NEEDED = {"torch": "2.13.0", "scml": "0.8.4", "negmas": "0.16.0", "scml-agents": "0.5.2"}
_CURES = {
    "torch": "pip install torch==2.13.0",
    "scml": "pip install -c constraints.txt -e .",
    "negmas": "pip install -c constraints.txt -e .",
    "scml-agents": "pip install --no-deps scml-agents==0.5.2",
}


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Finding(NamedTuple):
    good: bool
    what: str
    cure: str = ""


def run(options: DoctorOptions) -> int:
    """Log every finding; 0 if everything works, 1 otherwise."""
    wrong = 0
    for part in (versions, machine, executors, agents, browser):
        for finding in part():
            log.info("%s %s", "ok   " if finding.good else "WRONG", finding.what)
            if not finding.good:
                wrong += 1
                log.info("      fix: %s", finding.cure)
    log.info("everything works" if not wrong else f"{wrong} problems found")
    return 1 if wrong else 0


def versions() -> Iterator[Finding]:
    yield Finding(True, f"Python {platform.python_version()}, Echelon {version('echelon')}")
    for name, needed in _NEEDED.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Finding(False, f"{name} is not installed", _CURES[name])
            continue
        yield Finding(found.split("+")[0] == needed, f"{name} {found} (Echelon is tested with {needed})", _CURES[name])


def machine() -> Iterator[Finding]:
    yield Finding(True, f"{os.cpu_count()} cores; `--parallelism loky` uses {n_workers('loky')} workers")


def threads() -> str:
    """The thread limit that a worker has; runs in the worker."""
    return os.environ.get("OMP_NUM_THREADS", "not limited")


def executors() -> Iterator[Finding]:
    for spec in ("serial", "loky:1", "parallel:1", "dask"):
        name = spec.split(":")[0]
        try:
            with make_executor(spec) as executor:
                count = executor.submit(threads).result(timeout=120)
        except Exception as error:  # noqa: BLE001 - any error is a finding
            cure = 'pip install -c constraints.txt -e ".[dask]"' if name == "dask" else "see the message"
            yield Finding(False, f"executor {name}: {error}", cure)
            continue
        where = "in this process" if name == "serial" else f"{count} thread per worker"
        yield Finding(True, f"executor {name} works ({where})")


def agents() -> Iterator[Finding]:
    for name, module in roster.ROSTER.items():
        try:
            roster.agent_class(name)
        except Exception as error:  # noqa: BLE001 - a foreign module may fail in any way
            yield Finding(False, f"agent {name} does not import: {error}", _CURES["scml-agents"])
            continue
        yield Finding(True, f"agent {name} ({importlib.import_module(module).__name__})")


def browser() -> Iterator[Finding]:
    """Optional: without it, only the tests that open the report's page are skipped."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    what = f"{found} opens the report's page in tests" if found else "none; tests of the report's page are skipped"
    yield Finding(True, f"Chromium (optional): {what}")
