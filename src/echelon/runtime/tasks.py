"""Many tasks on one executor, where one bad task does not end a night.

    for result in run_tasks("loky", play, [Task("world 0", (0,)), ...], timeout=600):
        ...

Results come as they finish. A task that raises is an `error`, one that takes too long a `timeout`,
one whose worker dies again and again `died`; the others are not touched by that.

When a worker dies, a process pool breaks as a whole and nobody can say which of the tasks in
flight did it. So all of them are suspects: a new pool is made and each suspect runs again alone.
Whoever dies alone is the culprit.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from echelon.runtime.deadline import DeadlineExceeded, deadline, default_grace, hard_stop
from echelon.runtime.executors import ExecutorSpec, NamedExecutor, WorkerDied, make_executor
from echelon.runtime.worker import nothing

T = TypeVar("T")

TaskStatus = Literal["ok", "error", "timeout", "died"]

STARTS = 3
"""How often a new pool may fail to bring up one worker before the run is given up."""


@dataclass(frozen=True)
class Task:
    """One call of the run's function."""

    name: str
    """How messages call it; unique within a run if results are to be told apart."""
    args: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.args, tuple):
            raise ValueError(f"args of task {self.name} is a {type(self.args).__name__}; use a tuple, e.g. (value,)")


@dataclass(frozen=True)
class TaskResult(Generic[T]):
    """What became of a task."""

    name: str
    status: TaskStatus
    value: T | None = None
    """What the function returned; None unless the status is ok."""
    error: str | None = None
    """The traceback, or the reason; None if the status is ok."""
    seconds: float = 0.0
    """Time in the worker."""

    def __post_init__(self) -> None:
        if (self.status == "ok") != (self.error is None):
            raise ValueError(f"task {self.name} has status {self.status} and error {self.error!r}; ok means no error")


def run_tasks(
    spec: str,
    fn: Callable[..., T],
    tasks: Iterable[Task],
    *,
    timeout: float | None = None,
    grace: float | None = None,
    retries: int = 1,
) -> Generator[TaskResult[T], None, None]:
    """Run `fn(*task.args)` for each task and yield the results as they finish.

    `fn` must be a module's function, so that it can be sent. `timeout` is in seconds of each task's own
    time; a task that cannot be interrupted is ended with its worker `grace` seconds later (None: 10 s or
    half the timeout, if that is more), but not with `serial`.
    `retries`: how often a task whose worker died runs again. Leaving the loop early stops the pool at once.
    """
    ExecutorSpec.parse(spec)
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout={timeout} leaves no time; use a positive number of seconds, or None for no limit")
    if retries < 0:
        raise ValueError(f"retries={retries} is negative; use 0 or more")
    return _Run(spec, fn, tasks, _Limit.of(timeout, grace), retries).results()


@dataclass(frozen=True)
class _Limit:
    seconds: float
    hard: float

    @staticmethod
    def of(timeout: float | None, grace: float | None) -> _Limit | None:
        if timeout is None:
            return None
        return _Limit(timeout, timeout + (default_grace(timeout) if grace is None else grace))


@dataclass(frozen=True)
class _Attempt:
    task: Task
    deaths: int = 0


class _Run(Generic[T]):
    """The state of one `run_tasks`: the pool, what is in flight, and who is suspected of a death."""

    def __init__(
        self, spec: str, fn: Callable[..., T], tasks: Iterable[Task], limit: _Limit | None, retries: int
    ) -> None:
        self.spec = spec
        self.fn = fn
        self.limit = limit
        self.retries = retries
        self._tasks = iter(tasks)
        self._returned: deque[Task] = deque()  # taken from `_tasks`, but the pool was broken already
        self._executor: NamedExecutor | None = None
        self._flying: dict[Future[TaskResult[T]], _Attempt] = {}
        self._suspects: deque[_Attempt] = deque()

    def results(self) -> Generator[TaskResult[T], None, None]:
        try:
            while True:
                yield from self._fill()
                if self._flying:
                    done, _ = wait(self._flying, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield from self._settle(future, self._flying.pop(future))
                elif self._suspects:
                    yield from self._alone(self._suspects.popleft())
                elif not self._returned:
                    break
            if self._executor is not None:
                self._executor.shutdown()
                self._executor = None
        finally:
            self._discard()  # an error, Ctrl-C, or the caller left: do not wait for what is running

    def _fill(self) -> Generator[TaskResult[T], None, None]:
        """Submit tasks until every worker has one and one more waits. Suspects go first, alone."""
        while not self._suspects:
            executor = self._pool()
            if len(self._flying) >= executor.workers + (0 if executor.in_process else 1):
                return
            task = self._returned.popleft() if self._returned else next(self._tasks, None)
            if task is None:
                return
            try:
                self._flying[self._submit(executor, task)] = _Attempt(task)
            except WorkerDied:  # the pool broke while this task was not in it: it is no suspect
                self._returned.append(task)
                if self._flying:
                    return
                self._discard()
            except Exception:  # noqa: BLE001 - dask raises here whatever the pickling of a task raised
                yield TaskResult(task.name, "error", error=traceback.format_exc())

    def _settle(self, future: Future[TaskResult[T]], attempt: _Attempt) -> Generator[TaskResult[T], None, None]:
        name = attempt.task.name
        if future.cancelled():
            raise ConnectionError(f"{name} was cancelled by {self.spec}: its scheduler is gone; start it again")
        error = future.exception()
        if error is None:
            yield future.result()
        elif isinstance(error, WorkerDied):
            self._suspects.append(replace(attempt, deaths=attempt.deaths + 1))
            if self._executor is not None and not self._executor.lives_on:
                self._discard()
        else:  # the task itself never raises out of `_work`: its value or its arguments could not be sent
            yield TaskResult(name, "error", error="".join(traceback.format_exception(error)))

    def _alone(self, attempt: _Attempt) -> Generator[TaskResult[T], None, None]:
        """Run a suspect with nobody beside it, so that a death is certainly its own."""
        executor = self._warm_pool()
        started = time.monotonic()
        future = self._submit(executor, attempt.task)
        wait([future])
        seconds = time.monotonic() - started
        yield from self._settle(future, attempt)
        if not self._suspects or self._suspects[-1].task is not attempt.task:
            return
        again = self._suspects.pop()
        name = again.task.name
        if self.limit is not None and seconds >= self.limit.hard:
            text = f"{name} took more than {self.limit.seconds:g} s, did not react, and was ended with its worker"
            yield TaskResult(name, "timeout", error=text, seconds=seconds)
        elif again.deaths > self.retries:
            text = f"{WorkerDied(name)}; {again.deaths} times, the last time with no other task running"
            yield TaskResult(name, "died", error=text, seconds=seconds)
        else:
            self._suspects.appendleft(again)

    def _submit(self, executor: NamedExecutor, task: Task) -> Future[TaskResult[T]]:
        return executor.submit_named(task.name, _work, self.fn, task, self.limit, not executor.in_process)

    def _pool(self) -> NamedExecutor:
        if self._executor is None:
            self._executor = make_executor(self.spec)
        return self._executor

    def _warm_pool(self) -> NamedExecutor:
        """A pool with a worker that is up, so that start-up is not counted as the next task's time."""
        for _ in range(STARTS - 1):
            try:
                self._pool().submit_named("the start of a worker", nothing).result()
                return self._pool()
            except WorkerDied:
                self._discard()
        self._pool().submit_named("the start of a worker", nothing).result()
        return self._pool()

    def _discard(self) -> None:
        if self._executor is not None:
            executor, self._executor = self._executor, None
            executor.kill()


def _work(fn: Callable[..., T], task: Task, limit: _Limit | None, may_exit: bool) -> TaskResult[T]:
    """In the worker: run the task within its time. Errors travel as text, since not every exception unpickles."""
    started = time.perf_counter()
    clock = deadline(limit.seconds) if limit is not None else None
    error: str | None = None
    value: T | None = None
    try:
        with hard_stop(limit.hard if limit is not None and may_exit else None), clock or nullcontext():
            value = fn(*task.args)
    except (Exception, SystemExit, DeadlineExceeded):  # noqa: BLE001 - whatever it raised, the other tasks go on
        error = traceback.format_exc()
    finally:
        if clock is not None:
            clock.end()
    seconds = time.perf_counter() - started
    if clock is not None and clock.fired:
        text = error or f"it took more than {clock.seconds:g} s"
        return TaskResult(task.name, "timeout", error=text, seconds=seconds)
    if error is not None:
        return TaskResult(task.name, "error", error=error, seconds=seconds)
    return TaskResult(task.name, "ok", value, seconds=seconds)
