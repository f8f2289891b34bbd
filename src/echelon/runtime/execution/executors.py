"""Where tasks run: `serial`, `loky`, `parallel` or `dask`, all behind one `concurrent.futures.Executor`.

    with make_executor("loky:4") as executor:
        future = executor.submit(play, world)

Every worker has one thread and one hash seed (`worker.WORKER_ENV`), so results do not depend on
where a task ran. When a worker dies the future raises `WorkerDied` with the task's name, when a task
takes longer than its time limit `TaskLate`; the other tasks continue, on a new worker. `loky` and `parallel`
are two names of one pool. loky and dask are imported only when used.
"""

from __future__ import annotations

import math
import os
import pickle
import re
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future, InvalidStateError
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast, get_args

from echelon.runtime.execution.worker import Answer

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


class TaskLate(RuntimeError):
    """A task took longer than its time limit and was ended with its worker."""

    def __init__(self, task_name: str, reason: str, where: str) -> None:
        super().__init__(task_name, reason, where)
        self.task_name = task_name
        self.reason = reason
        self.where = where
        """Its stack at that moment, innermost call first; empty where the system cannot tell."""

    def __str__(self) -> str:
        return f"{self.where}{self.task_name} {self.reason}"


@dataclass(frozen=True)
class ExecutorSpec:
    """A parsed `--parallelism`: the kind, and how many workers or which scheduler."""

    kind: ExecutorKind
    workers: int | None = None
    """A number of worker processes; None: by `fraction`, or one per core."""
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
    """An executor that knows its size, names the task that failed, keeps time limits and can stop at once.

    It can be used after a worker's death: the dead worker is replaced.
    """

    workers: int
    """Tasks that run at the same time."""
    in_process: bool = False
    """True if tasks without a time limit run in the caller's own process."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn(*args, **kwargs)`; the task's name is the call itself."""
        return self.start(_describe(fn, args, kwargs), None, fn, *args, **kwargs)

    @abstractmethod
    def start(
        self, name: str, timeout: float | None, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run `fn(*args, **kwargs)`; if it takes more than `timeout` seconds, end its process: `TaskLate`."""

    @abstractmethod
    def kill(self) -> None:
        """Stop immediately: running tasks are lost."""


class SerialExecutor(NamedExecutor):
    """Runs each task at submit: in the caller, or in one worker process if the task has a time limit."""

    workers = 1
    in_process = True

    def __init__(self) -> None:
        self._open = True
        self._child: NamedExecutor | None = None

    def start(
        self, name: str, timeout: float | None, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        if not self._open:
            raise RuntimeError(f"{name} was submitted after shutdown; make a new executor")
        if timeout is not None:
            if self._child is None:
                self._child = make_executor("loky:1")
            future = self._child.start(name, timeout, fn, *args, **kwargs)
            wait_for([future])
            return future
        future = Future()
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
        if self._child is not None:
            self._child.shutdown(wait, cancel_futures=cancel_futures)

    def kill(self) -> None:
        self._open = False
        if self._child is not None:
            self._child.kill()


def packed(
    future: Future[Any], fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> bytes | None:
    """A call as it is sent to a worker; None if it cannot be sent: then the future has the error."""
    import cloudpickle  # unlike pickle it can send the functions of a script

    try:
        return bytes(cloudpickle.dumps((fn, args, kwargs)))
    except Exception as error:  # noqa: BLE001 - pickling runs code of the arguments
        future.set_exception(error)
        return None


def settle(future: Future[Any], name: str, answer: Answer) -> None:
    """Give a future what a worker answered."""
    try:
        if answer.kind == "ok":
            future.set_result(pickle.loads(answer.body))
        elif answer.kind == "error":
            future.set_exception(_raised(answer))
        elif answer.kind == "late":
            future.set_exception(TaskLate(name, answer.text, answer.body.decode(errors="replace")))
        else:
            future.set_exception(WorkerDied(name))
    except InvalidStateError:  # cancelled in the meantime
        pass
    except Exception as error:  # noqa: BLE001 - unpickling runs code of the value
        future.set_exception(error)


def _raised(answer: Answer) -> BaseException:
    """The exception of a task, with its traceback as the cause; as text if it cannot be unpickled."""
    remote = RuntimeError(f"in the worker:\n{answer.text}")
    try:
        error: BaseException = pickle.loads(answer.body)
    except Exception:  # noqa: BLE001 - an exception of the task's own class may fail in any way
        return remote
    error.__cause__ = remote
    return error


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
        from echelon.runtime.execution.dask_executor import DaskExecutor

        return DaskExecutor(parsed.address, parsed.local_workers())
    from echelon.runtime.execution.pool import PoolExecutor

    return PoolExecutor(parsed.local_workers())
