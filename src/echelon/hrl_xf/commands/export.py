"""`echelon hrl export`: an agent as one zip file for the league."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.competitors.specs import parse_agent
from echelon.hrl_xf.options.export import ExportOptions
from echelon.hrl_xf.submission.package import PLAIN, Entry, entry_of
from echelon.hrl_xf.submission.sources import ExportError
from echelon.runtime.files import write_atomic

log = logging.getLogger(__name__)

_DAYS = 5
_TRY = f"""
import runpy, sys
sys.modules["echelon"] = None
sys.path.insert(0, ".")
sys.argv = ["try_it.py", "{_DAYS}"]
runpy.run_path("try_it.py")
"""
_SECONDS = 600


def run(options: ExportOptions) -> int:
    """Collect the files, play a world from them, and write the zip file."""
    spec = parse_agent(options.agent)
    if not issubclass(spec.load(), LitaAgentHRL):
        raise ExportError(f"--agent {options.agent} is not derived from LitaAgentHRL; see `echelon hrl new-agent`")
    entry = entry_of(spec, options.layers)
    zipped = entry.zipped()
    if not options.skip_check:
        log.info("playing a world from the export, without Echelon …")
        log.info("%s", tried(entry))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.output, zipped)
    size = f"{len(entry.files)} files, {len(zipped) / 1e6:.2f} MB"
    log.info("%s: %s; the class is %s", options.output, size, entry.class_name)
    more = sorted(entry.outside - PLAIN)
    if more:
        log.info("it imports %s too: ask the league whether they are installed there", ", ".join(more))
    log.info("next: unpack it, follow its README.md, and fill in the fields of the submission form")
    return 0


def tried(entry: Entry) -> str:
    """What a world says that is played from the export by a process that has no Echelon."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in entry.files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        command = [sys.executable, "-P", "-c", _TRY]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise ExportError(f"a world of {_DAYS} days was not over after {_SECONDS} seconds") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ExportError("the agent does not play from its export: " + "\n".join(said[-8:]))
    return done.stdout.rstrip()
