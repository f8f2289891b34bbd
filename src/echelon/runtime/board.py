"""TensorBoard during a training, on the first free port."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)

TRIES = 100


@contextmanager
def tensorboard(folder: Path, port: int) -> Iterator[int]:
    """A TensorBoard server over `folder` while the block runs; gives the port it got."""
    free = free_port(port)
    process = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", str(free)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    log.info("TensorBoard: http://localhost:%d", free)
    try:
        yield free
    finally:
        process.terminate()
        process.wait()


def should_start(asked: bool, refused: bool) -> bool:
    """Whether to start it: if requested, or if output goes to a terminal and it was not turned off."""
    return asked or (not refused and sys.stdout.isatty())


def free_port(wanted: int) -> int:
    """`wanted`, or the next free port."""
    for port in range(wanted, min(wanted + TRIES, 65536)):
        with socket.socket() as probe:
            try:
                probe.bind(("localhost", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port in {wanted} .. {wanted + TRIES - 1} for TensorBoard; give --tensorboard-port")
