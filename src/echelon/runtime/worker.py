"""The inside of a worker process: its environment, and its way of dying with its parent.

Worlds depend on string hashing, so every worker has the same hash seed; and each worker is one
of many on the machine, so its numerical libraries get one thread.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

WORKER_ENV: Mapping[str, str] = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
"""What every worker process finds in its environment before it imports anything."""

_environment_lock = threading.RLock()


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Give `values` to the processes started inside the block; afterwards everything is as before."""
    with _environment_lock:
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield
        finally:
            restore(before)


def restore(before: Mapping[str, str | None]) -> None:
    """Put environment variables back; None means that there was none."""
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def start_worker(parent: int) -> None:
    """Initialise a pool worker: Ctrl-C is the parent's business, and a worker without a parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), name="parent-watch", daemon=True).start()


def _end_with(parent: int) -> None:
    # After `kill -9` of the parent a pool worker would wait for work for ever, and meanwhile
    # finish a task whose directory a resumed run may already be writing.
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def nothing() -> None:
    """The task that shows that a worker is up."""
