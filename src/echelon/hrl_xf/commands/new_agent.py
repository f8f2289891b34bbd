"""`echelon hrl new-agent`: a folder with the start of an agent of one's own."""

from __future__ import annotations

import logging
from pathlib import Path

from echelon.hrl_xf.options.new_agent import NewAgentOptions, snake
from echelon.hrl_xf.submission.starter import next_commands, starter_files

log = logging.getLogger(__name__)


def run(options: NewAgentOptions) -> int:
    """Write the folder and say what can be done with it."""
    folder = Path(snake(options.name))
    if folder.exists():
        raise ValueError(f"there is a {folder} here already; choose another name, or remove it")
    files = starter_files(options.name, options.own, options.layers)
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    log.info("made %s: edit %s where it says EDIT HERE, then", folder, folder / "agent.py")
    for what, command in next_commands(options.name).items():
        log.info("  %-10s %s", what, command)
    return 0
