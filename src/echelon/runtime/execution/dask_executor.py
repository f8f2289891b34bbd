"""dask.distributed behind our executor: a local cluster of one-thread processes, or a running scheduler.

A task costs about 7 ms here: submit worlds, never steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from multiprocessing import current_process
from typing import Any, ParamSpec, TypeVar

from echelon.runtime.execution.executors import NamedExecutor, packed, settle
from echelon.runtime.execution.pool import Worker
from echelon.runtime.execution.worker import WORKER_ENV, Answer, restore

P = ParamSpec("P")
T = TypeVar("T")

try:
    import dask
    import distributed
except ImportError as error:
    raise ImportError(
        "executor dask needs the package distributed, which is not installed; "
        "install it with: pip install 'echelon[dask]' (or use loky)"
    ) from error

CONNECT_SECONDS = 30

KILL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL  # either ends a process at once

WORKER_COMMAND = "dask worker {address} --nthreads 1 --no-nanny"


class DaskExecutor(NamedExecutor):
    """Tasks on a dask cluster. The cluster outlives a worker's death."""

    def __init__(self, address: str | None, workers: int) -> None:
        self._before = {name: os.environ.get(name) for name in WORKER_ENV}
        self._cluster: Any = None
        self._client: Any = None
        try:
            if address is None:
                self._cluster = _local_cluster(workers)
                self._client = _connect(self._cluster.scheduler_address)
            else:
                self._client = _connect(address)
                _check_workers(self._client, address)
            self.workers = len(self._client.nthreads())
        except BaseException:
            self._close()
            raise
        # pure=False: otherwise equal calls are taken for one and run once.
        self._pool: Executor = self._client.get_executor(pure=False)

    def start(
        self, name: str, timeout: float | None, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        future: Future[T] = Future()
        payload = packed(future, fn, args, kwargs)
        if payload is not None:
            inner = self._pool.submit(in_child, payload, timeout)
            future.add_done_callback(lambda outer: inner.cancel() if outer.cancelled() else None)
            inner.add_done_callback(lambda done: _follow(done, future, name))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait=wait and not cancel_futures)
        self._close()

    def kill(self) -> None:
        if self._cluster is not None:
            self._cluster.sync(_kill_workers, self._cluster)
        self.shutdown(wait=False)

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()
            restore(self._before)  # nannies write into this process's environment whenever they start a worker


def _follow(inner: Future[Answer], future: Future[Any], name: str) -> None:
    if inner.cancelled():
        future.cancel()
    if not future.set_running_or_notify_cancel():
        return
    error = inner.exception()
    if error is None or isinstance(error, distributed.KilledWorker):
        settle(future, name, inner.result() if error is None else Answer("died"))
    else:
        future.set_exception(error)


_child: list[Worker] = []
"""The process in which this dask worker's tasks run; empty before the first one and after a death."""


def in_child(payload: bytes, timeout: float | None) -> Answer:
    """On a dask worker: run a task in the worker's child process.

    A dask worker runs tasks in a thread next to threads of its own, and those draw from Python's global random
    generator at any time. A world that depends on that generator would not be repeatable. So each worker keeps
    one child process in which its tasks run alone, with our environment whatever the worker's own is.
    """
    child = _child.pop() if _child else Worker()
    if not child.ready:
        child = Worker()
    answer = child.run(payload, timeout)
    if answer.kind not in ("late", "died"):
        _child.append(child)
    return answer


def may_have_a_child() -> bool:
    """Whether this process is free to start others; a nanny's worker is not."""
    return not current_process().daemon


def _local_cluster(workers: int) -> Any:
    # Workers start the process that tasks run in, which daemons may not.
    with dask.config.set({"distributed.worker.daemon": False}):
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # any free port
            silence_logs=logging.CRITICAL,
            memory_limit=0,  # no pausing or killing by memory: the other executors have none either
            scheduler_kwargs={"allowed_failures": 0},  # who runs a task again, and how often, is our caller's choice
        )


def _connect(address: str) -> Any:
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ConnectionError(
            f"no dask scheduler answers at {address} within {CONNECT_SECONDS} s; "
            f"start one there with: dask scheduler --port {address.rpartition(':')[2]}"
        ) from error


def _check_workers(client: Any, address: str) -> None:
    """Foreign workers must be like ours: one thread, and free to start the process that tasks run in."""
    command = WORKER_COMMAND.format(address=address)
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError as error:
        raise ConnectionError(f"the dask scheduler {address} has no workers; start some with: {command}") from error
    for worker, threads in client.nthreads().items():
        if threads != 1:
            raise ValueError(f"dask worker {worker} has {threads} threads, but must have 1; start it with: {command}")
    for worker, free in client.run(may_have_a_child).items():
        if not free:
            raise ValueError(
                f"dask worker {worker} runs under a nanny and may not start processes, in which tasks run; "
                f"start it with: {command}"
            )


async def _kill_workers(cluster: Any) -> None:
    nannies = list(cluster.workers.values())
    pids = [nanny.pid for nanny in nannies]
    closing = [asyncio.ensure_future(nanny.close(timeout=CONNECT_SECONDS)) for nanny in nannies]
    await asyncio.sleep(0)  # now the nannies know that they are closing, and will not start new workers
    for pid in pids:
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, KILL)
    await asyncio.gather(*closing)
