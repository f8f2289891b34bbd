"""Where tasks run: `serial`, `loky`, `parallel` or `dask`, all behind one `concurrent.futures.Executor`.

    with make_executor("loky:4") as executor:
        future = executor.submit(play, world)

Every worker has one thread and one hash seed (`worker.WORKER_ENV`), so results do not depend on
where a task ran. When a worker dies, whatever the pool beneath calls that, the future raises
`WorkerDied` with the task's name. loky and dask are imported when they are asked for, not before.
"""

from __future__ import annotations

import math
import os
import re
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast, get_args

from echelon.runtime.worker import WORKER_ENV, environment, start_worker

P = ParamSpec("P")
T = TypeVar("T")

ExecutorKind = Literal["serial", "loky", "parallel", "dask"]

VALID_SPECS = "serial, loky, loky:4, loky:0.5, parallel, parallel:2, dask, dask:tcp://host:8786"


class WorkerDied(RuntimeError):
    """The process that ran a task ended without an answer (killed, out of memory, crashed)."""

    def __init__(self, task_name: str) -> None:
        super().__init__(task_name)
        self.task_name = task_name

    def __str__(self) -> str:
        return f"the worker that ran {self.task_name} died without an answer (killed, crashed or out of memory)"


@dataclass(frozen=True)
class ExecutorSpec:
    """A parsed `--parallelism`: the kind, and how many workers or which scheduler."""

    kind: ExecutorKind
    workers: int | None = None
    """A number of worker processes; None: by `fraction`, or one a core."""
    fraction: float | None = None
    """A share of the cores, in (0, 1]."""
    address: str | None = None
    """The dask scheduler to use; None: a local cluster."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(ExecutorKind):
            raise ValueError(f"executor {self.kind!r} is unknown; use one of {VALID_SPECS}")
        if self.workers is not None and self.workers < 1:
            raise ValueError(
                f"{self.kind}:{self.workers} has no workers; use {self.kind}:1 or more, or serial for none"
            )
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise ValueError(f"{self.kind}:{self.fraction} is not a share of the cores in (0, 1]; use {self.kind}:0.5")
        if self.workers is not None and self.fraction is not None:
            raise ValueError(f"{self.kind} takes workers={self.workers} or fraction={self.fraction}, not both")
        if self.kind not in ("loky", "parallel") and (self.workers, self.fraction) != (None, None):
            raise ValueError(f"{self.kind} takes no number of workers; use loky:N or parallel:N")
        if self.address is not None and self.kind != "dask":
            raise ValueError(f"{self.kind} takes no address ({self.address}); use dask:{self.address}")

    @classmethod
    def parse(cls, text: str) -> ExecutorSpec:
        """Read `kind` or `kind:argument`."""
        name, colon, argument = text.strip().partition(":")
        if name not in get_args(ExecutorKind):
            raise ValueError(f"executor {text!r} is unknown; use one of {VALID_SPECS}")
        kind = cast(ExecutorKind, name)
        if not colon:
            return cls(kind)
        if kind == "serial":
            raise ValueError(f"{text!r}: serial takes no argument; use serial, or loky:{argument or 2} for processes")
        if kind == "dask":
            if not re.fullmatch(r"[a-z]+://.+:\d+", argument):
                raise ValueError(
                    f"{text!r}: dask takes a scheduler's address; use dask:tcp://host:8786, or dask for a local cluster"
                )
            return cls(kind, address=argument)
        if re.fullmatch(r"-?\d+", argument):
            return cls(kind, workers=int(argument))
        if re.fullmatch(r"-?\d*\.\d+", argument):
            return cls(kind, fraction=float(argument))
        raise ValueError(
            f"{text!r}: {argument!r} is neither a number of workers nor a share; use {kind}:4 or {kind}:0.5"
        )

    def local_workers(self) -> int:
        """Worker processes on this machine."""
        if self.kind == "serial":
            return 1
        if self.workers is not None:
            return self.workers
        return max(1, math.floor(cores() * (1.0 if self.fraction is None else self.fraction)))


def cores() -> int:
    """Cores this process may use: its affinity, and the container's quota where there is one."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, math.ceil(int(quota) / int(period))))


def n_workers(spec: str) -> int:
    """How many tasks `spec` runs at once. For a dask address it asks the scheduler."""
    parsed = ExecutorSpec.parse(spec)
    if parsed.address is None:
        return parsed.local_workers()
    with make_executor(spec) as executor:
        return executor.workers


class NamedExecutor(Executor):
    """An executor that knows its size, names the task whose worker died, and can stop at once."""

    workers: int
    """Tasks that run at the same time."""
    lives_on: bool
    """True if the executor can be used after a worker's death; False: make a new one."""
    in_process: bool = False
    """True if tasks run in the caller's own process."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn(*args, **kwargs)`; the task's name is the call itself."""
        return self.submit_named(_describe(fn, args, kwargs), fn, *args, **kwargs)

    @abstractmethod
    def submit_named(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn(*args, **kwargs)` under a name of the caller's."""

    @abstractmethod
    def kill(self) -> None:
        """Stop now: running tasks are lost."""

    def single(self) -> NamedExecutor | None:
        """A new executor of this kind with one worker, all its own; None if this kind has none."""
        return None


class SerialExecutor(NamedExecutor):
    """Runs each task in the caller, at submit."""

    workers = 1
    lives_on = True
    in_process = True

    def __init__(self) -> None:
        self._open = True

    def submit_named(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if not self._open:
            raise RuntimeError(f"{name} was submitted after shutdown; make a new executor")
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - an executor's future carries whatever the task raised
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._open = False

    def kill(self) -> None:
        self._open = False


class ProcessExecutor(NamedExecutor):
    """loky's or the standard library's process pool. A death breaks the whole pool.

    One that is still open when the interpreter ends is killed: after Ctrl-C nobody waits for a night's tasks.
    """

    lives_on = False

    def __init__(self, kind: Literal["loky", "parallel"], workers: int) -> None:
        self.workers = workers
        self._kind = kind
        self._pool, self._deaths = _loky_pool(workers) if kind == "loky" else _standard_pool(workers)
        self._started = False
        self._open = True

    def submit_named(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            inner = self._pool.submit(fn, *args, **kwargs)
        except BrokenProcessPool as error:  # loky's own classes derive from it
            raise WorkerDied(name) from error
        if not self._started:
            self._started = True
            # Both pools wait for their tasks in such a hook of their own, before any `atexit` function runs.
            # The last one registered is the first to run, and loky registers its own at its first submit.
            threading._register_atexit(_kill_if_open, weakref.ref(self))  # type: ignore[attr-defined]
        return relay(inner, name, self._deaths)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._open = False
        if self._kind == "loky":  # whose shutdown has no cancel_futures
            if cancel_futures:
                self.kill()
            self._pool.shutdown(wait=wait)
        else:
            self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def kill(self) -> None:
        self._open = False
        pool: Any = self._pool
        if self._kind == "loky":
            pool.shutdown(wait=True, kill_workers=True)
            return
        processes = list((pool._processes or {}).values())  # Python 3.14 has kill_workers() for this
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
        for process in processes:
            process.join()

    def single(self) -> NamedExecutor:
        return ProcessExecutor(self._kind, 1)


def _kill_if_open(reference: weakref.ref[ProcessExecutor]) -> None:
    executor = reference()
    if executor is not None and executor._open:
        executor.kill()


class _OneThreadProcess(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        # `spawn` has no env argument: the child inherits what is set at this moment.
        with environment(WORKER_ENV):
            return SpawnProcess._Popen(process_obj)


class _OneThreadContext(SpawnContext):
    Process = _OneThreadProcess


_Pool = tuple[Executor, tuple[type[BaseException], ...]]
"""A process pool, and what its futures raise when a worker is gone."""


def _standard_pool(workers: int) -> _Pool:
    context = _OneThreadContext()
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=start_worker, initargs=(os.getpid(),))
    return pool, (BrokenProcessPool,)


def _loky_pool(workers: int) -> _Pool:
    # Not loky's reusable singleton: that one is resized and shut down behind the back of
    # whoever else in this process uses it.
    from loky.process_executor import ProcessPoolExecutor as LokyPool
    from loky.process_executor import ShutdownExecutorError

    pool = LokyPool(workers, env=dict(WORKER_ENV), initializer=start_worker, initargs=(os.getpid(),))
    return pool, (BrokenProcessPool, ShutdownExecutorError)  # the second: the workers were killed by kill()


def relay(inner: Future[T], name: str, deaths: tuple[type[BaseException], ...]) -> Future[T]:
    """A future that follows `inner`, with any of `deaths` turned into `WorkerDied(name)`."""
    outer: Future[T] = Future()

    def follow(done: Future[T]) -> None:
        if done.cancelled():
            outer.cancel()
        if not outer.set_running_or_notify_cancel():
            return
        error = done.exception()
        if error is None:
            outer.set_result(done.result())
        elif isinstance(error, deaths):
            died = WorkerDied(name)
            died.__cause__ = error
            outer.set_exception(died)
        else:
            outer.set_exception(error)

    outer.add_done_callback(lambda future: inner.cancel() if future.cancelled() else None)
    inner.add_done_callback(follow)
    return outer


def _describe(fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    """`play(3, steps=50)`, shortened."""
    named = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
    short = [text if len(text) <= 40 else text[:37] + "..." for text in named]
    function = fn.__name__ if hasattr(fn, "__name__") else repr(fn)  # a functools.partial has no name
    return f"{function}({', '.join(short)})"


def make_executor(spec: str) -> NamedExecutor:
    """The executor that `spec` names: see `VALID_SPECS`."""
    parsed = ExecutorSpec.parse(spec)
    if parsed.kind == "serial":
        return SerialExecutor()
    if parsed.kind == "dask":
        from echelon.runtime.dask_executor import DaskExecutor

        return DaskExecutor(parsed.address, parsed.local_workers())
    return ProcessExecutor(parsed.kind, parsed.local_workers())
