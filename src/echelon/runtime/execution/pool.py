"""Worker processes of this machine, each with a pipe of its own to its parent, which keeps the time limits.

A worker that is late is killed, one that dies is noticed by its closed pipe, and either concerns the one task it had:
no lock and no queue is shared between workers, so nothing of the others can be left locked or half written.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing import Pipe
from multiprocessing.util import Finalize
from queue import Empty, SimpleQueue
from typing import Any, Literal, ParamSpec, TypeVar

from echelon.runtime.execution.executors import NamedExecutor, packed, settle
from echelon.runtime.execution.worker import CAN_TELL_WHERE, WORKER_ENV, Answer, serve

P = ParamSpec("P")
T = TypeVar("T")

START_SECONDS = 300.0
"""How long a worker may take to start and to import what a task with a time limit needs."""

WHERE_SECONDS = 5.0
"""How long a late worker may take to write where it is."""

_starting = threading.Lock()


class Worker:
    """A worker process as its parent sees it; for one task at a time."""

    def __init__(self) -> None:
        from loky.backend.process import LokyProcess  # unlike multiprocessing's it does not import the user's script

        with _starting:
            requests, self._requests = Pipe(duplex=False)
            self._answers, answers = Pipe(duplex=False)
            self._stacks, stacks = Pipe(duplex=False)
            self._process = LokyProcess(target=serve, args=(requests, answers, stacks), env=dict(WORKER_ENV))
            self._process.start()
            for its_own in (requests, answers, stacks):
                its_own.close()
        _workers.add(self)

    def run(self, payload: bytes, timeout: float | None) -> Answer:
        """Run a packed task within `timeout` seconds of its own time. A worker that is late is dead afterwards."""
        try:
            self._requests.send_bytes(payload)
            if not self._answers.poll(None if timeout is None else START_SECONDS):
                return self._stop(f"did not begin within {START_SECONDS:g} s: its modules take too long to import")
            self._answers.recv_bytes()
            if not self._answers.poll(timeout):
                return self._stop(f"took more than {timeout:g} s and was ended with its worker")
            kind, text = pickle.loads(self._answers.recv_bytes())
            return Answer(kind, text, self._answers.recv_bytes())
        except (EOFError, OSError):
            self.kill()
            return Answer("died")

    @property
    def ready(self) -> bool:
        """True for a worker that lives; for one without a task."""
        return not self._answers.poll(0)  # what there is to read is the end

    def kill(self) -> None:
        """End the process and those it started."""
        from loky.backend.utils import kill_process_tree

        kill_process_tree(self._process)

    def close(self) -> None:
        """Ask the process to end (immediately if it has no task) and wait for it."""
        self._requests.close()
        self._process.join()

    def _stop(self, reason: str) -> Answer:
        where = b""
        if CAN_TELL_WHERE:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGUSR1)
            self._process.join(WHERE_SECONDS)
            while self._stacks.poll(0) and (read := os.read(self._stacks.fileno(), 1 << 16)):
                where += read
        self.kill()
        return Answer("late", reason, where)


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


def _kill_all() -> None:
    for worker in list(_workers):
        worker.kill()


# After Ctrl-C the tasks of an executor that was not closed are not awaited. Not by `atexit`, which a dask worker,
# itself a process of multiprocessing, does not run.
Finalize(None, _kill_all, exitpriority=100)


_Job = tuple[Future[Any], str, float | None, bytes]


class PoolExecutor(NamedExecutor):
    """Worker processes, started when tasks need them and replaced when they are dead. A thread waits for each."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._processes: weakref.WeakSet[Worker] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._state: Literal["open", "closed", "killed"] = "open"
        self._threads = [threading.Thread(target=self._work, name="pool", daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def start(
        self, name: str, timeout: float | None, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        future: Future[T] = Future()
        payload = packed(future, fn, args, kwargs)
        with self._lock:
            if self._state != "open":
                raise RuntimeError(f"{name} was submitted after shutdown; make a new executor")
            if payload is not None:
                self._jobs.put((future, name, timeout, payload))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            first, self._state = self._state == "open", "closed" if self._state == "open" else self._state
        if cancel_futures:
            self._cancel()
        for _ in self._threads if first else ():
            self._jobs.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def kill(self) -> None:
        self.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._state = "killed"
            running = list(self._processes)
        for process in running:
            process.kill()
        for thread in self._threads:
            thread.join()

    def _cancel(self) -> None:
        with contextlib.suppress(Empty):
            while job := self._jobs.get_nowait():
                job[0].cancel()

    def _work(self) -> None:
        worker: Worker | None = None
        while job := self._jobs.get():
            worker = self._perform(worker, *job)
            del job
        if worker is not None:
            worker.close()

    def _perform(
        self, worker: Worker | None, future: Future[Any], name: str, timeout: float | None, payload: bytes
    ) -> Worker | None:
        """Run one task on the worker, or on a new one; return the worker if it can take another."""
        if not future.set_running_or_notify_cancel():
            return worker
        try:
            worker = worker if worker is not None and worker.ready else self._new_worker()
            answer = worker.run(payload, timeout) if worker is not None else Answer("died")
        except OSError as error:  # no worker could be started
            future.set_exception(error)
            return None
        settle(future, name, answer)
        return None if answer.kind in ("late", "died") else worker

    def _new_worker(self) -> Worker | None:
        with self._lock:
            if self._state == "killed":
                return None
            worker = Worker()
            self._processes.add(worker)
            return worker
