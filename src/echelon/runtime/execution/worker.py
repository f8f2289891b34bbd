"""The inside of a worker process: its environment, and its loop of tasks.

Worlds depend on string hashing, so every worker has the same hash seed; and each worker is one
of many on the machine, so its numerical libraries get one thread. A worker does not know
about time limits: its parent enforces them (see `pool`).
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Literal

WORKER_ENV: Mapping[str, str] = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
"""What every worker process finds in its environment before it imports anything."""

CAN_TELL_WHERE = hasattr(faulthandler, "register")
"""True where a signal makes a process write its stack and end (POSIX)."""


@dataclass(frozen=True)
class Answer:
    """The outcome of a task."""

    kind: Literal["ok", "error", "late", "died"]
    text: str = ""
    """The traceback of an error, or which limit a late task exceeded."""
    body: bytes = b""
    """The pickled value or exception, or the stack of a late task."""


def serve(requests: Connection, answers: Connection, stacks: Connection) -> None:
    """Run the tasks that arrive until the parent closes the pipe or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    if CAN_TELL_WHERE:
        faulthandler.register(signal.SIGUSR1, stacks.fileno(), all_threads=False, chain=True)  # chain: then end
    payloads: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, payloads), name="receiver", daemon=True).start()
    while True:
        answer = perform(payloads.get(), lambda: answers.send_bytes(b"begun"))
        answers.send_bytes(pickle.dumps((answer.kind, answer.text)))
        answers.send_bytes(answer.body)


def _receive(requests: Connection, payloads: SimpleQueue[bytes]) -> None:
    # In a thread, so that the end of the parent is noticed also during a task: after `kill -9` a worker
    # would otherwise finish a world whose directory a resumed run may already be writing.
    try:
        while True:
            payloads.put(requests.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def perform(payload: bytes, begun: Callable[[], None]) -> Answer:
    """Run a pickled `(fn, args, kwargs)`; `begun` is called when it is unpickled and its modules are imported."""
    import cloudpickle

    try:
        try:
            fn, args, kwargs = pickle.loads(payload)  # from our own parent, never from a file
        finally:
            begun()
        return Answer("ok", body=cloudpickle.dumps(fn(*args, **kwargs)))
    except BaseException as error:  # noqa: BLE001 - whatever it raised, the caller gets it
        return Answer("error", traceback.format_exc(), _pickled(error))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _pickled(error: BaseException) -> bytes:
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(error))
    except Exception:  # noqa: BLE001 - an exception may hold anything; its traceback is sent in any case
        return b""


def restore(before: Mapping[str, str | None]) -> None:
    """Put environment variables back; None means that there was none."""
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
