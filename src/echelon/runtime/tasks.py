"""Many tasks on one executor, where one bad task does not end a night.

    for result in run_tasks("loky", play, [Task("world 0", (0,)), ...], timeout=600):
        ...

Results come as they finish. A task that raises is an `error`, one that takes too long a `timeout`,
one whose worker dies again and again `died`; the others are not touched by that.

When a worker dies, a process pool breaks as a whole and nobody can say which of the tasks in
flight did it. So all of them are suspects: a new pool is made for the rest, and each suspect runs
again in a pool of its own (with dask: with nothing else running). Whoever dies there is the culprit.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from echelon.runtime.deadline import DeadlineExceeded, deadline, default_grace, forget_pending, hard_stop
from echelon.runtime.executors import ExecutorSpec, NamedExecutor, WorkerDied, make_executor
from echelon.runtime.worker import nothing

T = TypeVar("T")

logger = logging.getLogger("echelon.tasks")

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


@dataclass(frozen=True)
class _Flight:
    """A task that was submitted."""

    attempt: _Attempt
    executor: NamedExecutor
    alone: bool
    """True if a worker's death is certainly this task's."""
    started: float


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
        self._shared: NamedExecutor | None = None
        self._flying: dict[Future[TaskResult[T]], _Flight] = {}
        self._suspects: deque[_Attempt] = deque()

    def results(self) -> Generator[TaskResult[T], None, None]:
        try:
            while True:
                yield from self._fill()
                if not self._flying:
                    break
                done, _ = wait(self._flying, return_when=FIRST_COMPLETED)
                for future in [future for future in self._flying if future in done]:  # in the order of submission
                    yield from self._settle(future, self._flying.pop(future))
            if self._shared is not None:
                self._shared.shutdown()
                self._shared = None
        finally:  # an error, Ctrl-C, or the caller left: do not wait for what is running
            for executor in {flight.executor for flight in self._flying.values()} - {self._shared}:
                executor.kill()
            self._discard_shared()

    def _fill(self) -> Generator[TaskResult[T], None, None]:
        """Submit until every worker has a task and one more waits. Suspects go first."""
        while True:
            shared = self._pool()
            if len(self._flying) >= shared.workers + (0 if shared.in_process else 1):
                return
            if shared.lives_on and any(flight.alone for flight in self._flying.values()):
                return
            if self._suspects:
                if shared.lives_on and self._flying:
                    return
                self._start_alone(shared, self._suspects.popleft())
                continue
            task = self._returned.popleft() if self._returned else next(self._tasks, None)
            if task is None:
                return
            try:
                self._start(shared, _Attempt(task), alone=False)
            except WorkerDied:  # the pool broke while this task was not in it: it is no suspect
                self._returned.append(task)
                self._discard_shared()
            except Exception:  # noqa: BLE001 - dask raises here whatever the pickling of a task raised
                yield TaskResult(task.name, "error", error=traceback.format_exc())

    def _start(self, executor: NamedExecutor, attempt: _Attempt, *, alone: bool) -> None:
        started = time.monotonic()
        future = executor.submit_named(
            attempt.task.name, _work, self.fn, attempt.task, self.limit, not executor.in_process
        )
        self._flying[future] = _Flight(attempt, executor, alone, started)

    def _start_alone(self, shared: NamedExecutor, suspect: _Attempt) -> None:
        """Run a suspect where a death is certainly its own."""
        for left in reversed(range(STARTS)):
            executor = shared.single() or shared
            try:
                # A worker that is up: its start is not counted as the task's time, nor its failure as the task's.
                executor.submit_named("the start of a worker", nothing).result()
                self._start(executor, suspect, alone=True)
                return
            except BaseException as error:
                if executor is not shared:
                    executor.kill()
                if not isinstance(error, WorkerDied) or left == 0:
                    raise

    def _settle(self, future: Future[TaskResult[T]], flight: _Flight) -> Generator[TaskResult[T], None, None]:
        name = flight.attempt.task.name
        if future.cancelled() and flight.executor is not self._shared and not flight.alone:
            yield from self._judge(flight)  # its pool was broken and is gone
            return
        if future.cancelled():
            raise ConnectionError(f"{name} was cancelled by {self.spec}: its scheduler is gone; start it again")
        error = future.exception()
        if flight.executor is not self._shared and flight.alone:
            flight.executor.kill()  # its one task is over
        if error is None:
            yield future.result()
        elif isinstance(error, WorkerDied):
            yield from self._judge(flight)
        else:  # the task itself never raises out of `_work`: its value or its arguments could not be sent
            yield TaskResult(name, "error", error="".join(traceback.format_exception(error)))

    def _judge(self, flight: _Flight) -> Generator[TaskResult[T], None, None]:
        """A worker died with this task on it, or near it."""
        attempt = replace(flight.attempt, deaths=flight.attempt.deaths + 1)
        name = attempt.task.name
        seconds = time.monotonic() - flight.started
        if flight.executor is self._shared and not flight.executor.lives_on:
            self._discard_shared()
        if flight.alone and self.limit is not None and seconds >= self.limit.hard:
            text = f"{name} took more than {self.limit.seconds:g} s, did not react, and was ended with its worker"
            yield TaskResult(name, "timeout", error=text, seconds=seconds)
        elif flight.alone and attempt.deaths > self.retries:
            text = f"{WorkerDied(name)}; {attempt.deaths} times, the last time with no other task beside it"
            yield TaskResult(name, "died", error=text, seconds=seconds)
        else:
            logger.warning("a worker died while %s was in flight; it runs again alone", name)
            self._suspects.append(attempt)

    def _pool(self) -> NamedExecutor:
        if self._shared is None:
            self._shared = make_executor(self.spec)
        return self._shared

    def _discard_shared(self) -> None:
        if self._shared is not None:
            shared, self._shared = self._shared, None
            shared.kill()


def _work(fn: Callable[..., T], task: Task, limit: _Limit | None, may_exit: bool) -> TaskResult[T]:
    """In the worker: run the task within its time. Errors travel as text, since not every exception unpickles."""
    started = time.perf_counter()
    clock = deadline(limit.seconds) if limit is not None else None
    error: str | None = None
    value: T | None = None
    late = False
    try:
        try:
            with hard_stop(limit.hard if limit is not None and may_exit else None), clock or nullcontext():
                value = fn(*task.args)
        finally:
            if clock is not None:
                forget_pending()
    except DeadlineExceeded:
        late = True
        error = traceback.format_exc()
    except (Exception, SystemExit):  # noqa: BLE001 - whatever it raised, the other tasks go on
        error = traceback.format_exc()
    seconds = time.perf_counter() - started
    if clock is not None and (late or clock.fired):
        text = error or f"it took more than {clock.seconds:g} s"
        return TaskResult(task.name, "timeout", error=text, seconds=seconds)
    if error is not None:
        return TaskResult(task.name, "error", error=error, seconds=seconds)
    return TaskResult(task.name, "ok", value, seconds=seconds)
