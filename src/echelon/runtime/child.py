"""A process of its own for the tasks of a dask worker.

A dask worker runs tasks in a thread beside threads of its own, and those draw from Python's global random generator
whenever they like. A world that depends on that generator would not repeat itself. So each worker keeps one child
process in which its tasks run alone, with our environment whatever the worker's own is.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import current_process, get_context
from typing import Any, ParamSpec, TypeVar

from echelon.runtime.worker import WORKER_ENV, environment, nothing, start_worker

P = ParamSpec("P")
T = TypeVar("T")

_lock = threading.Lock()
_pool: ProcessPoolExecutor | None = None


def in_child(fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `fn` in this worker's child process; if that dies, `BrokenProcessPool`, and the next call has a new one."""
    import cloudpickle  # comes with dask; unlike pickle it can send the functions of a script

    pool = _child()
    try:
        answer: T = pool.submit(_call, cloudpickle.dumps((fn, args, kwargs))).result()
        return answer
    except BrokenProcessPool:
        _forget(pool)
        raise


def may_have_a_child() -> bool:
    """Whether this process is free to start others; a nanny's worker is not."""
    return not current_process().daemon


def _call(sent: bytes) -> Any:
    fn, args, kwargs = pickle.loads(sent)  # from our own parent process, never from a file
    return fn(*args, **kwargs)


def _child() -> ProcessPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=start_worker, initargs=(os.getpid(),))
            with environment(WORKER_ENV):
                pool.submit(nothing).result()
            _pool = pool
        return _pool


def _forget(pool: ProcessPoolExecutor) -> None:
    global _pool
    with _lock:
        if _pool is pool:
            _pool = None
    pool.shutdown(wait=False)
