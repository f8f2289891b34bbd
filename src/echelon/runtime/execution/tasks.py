"""Many tasks on one executor; a task that fails does not stop the others.

    for result in run_tasks("loky", play, [Task("world 0", (0,)), ...], timeout=600):
        ...

Results are yielded as they finish. A task that raises has status `error`, one that takes too long `timeout`,
one whose worker dies repeatedly `died`; the others are not affected.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from echelon.runtime.execution.executors import ExecutorSpec, TaskLate, WorkerDied, make_executor

T = TypeVar("T")

log = logging.getLogger(__name__)

RETRIES = 1
"""How often a task whose worker died runs again."""

TaskStatus = Literal["ok", "error", "timeout", "died"]


@dataclass(frozen=True)
class Task:
    """One call of the run's function."""

    name: str
    """Its name in messages; unique within a run if results must be distinguished."""
    args: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.args, tuple):
            raise ValueError(f"args of task {self.name} is a {type(self.args).__name__}; use a tuple, e.g. (value,)")


@dataclass(frozen=True)
class TaskResult(Generic[T]):
    """The outcome of a task."""

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
) -> Generator[TaskResult[T], None, None]:
    """Run `fn(*task.args)` for each task and yield the results as they finish.

    `fn` must be a module's function, so that it can be sent. `timeout` is in seconds of each task's own time; a task
    that takes longer is ended with its worker. With `timeout`, `serial` runs tasks in a process of their own too.
    A task whose worker died runs once more. Leaving the loop early stops the pool at once.
    """
    ExecutorSpec.parse(spec)
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout={timeout} leaves no time; use a positive number of seconds, or None for no limit")
    return _results(spec, fn, iter(tasks), timeout)


@dataclass
class _Flight:
    """A task that was submitted."""

    task: Task
    started: float
    deaths: int = 0


def _results(
    spec: str, fn: Callable[..., T], tasks: Iterator[Task], timeout: float | None
) -> Generator[TaskResult[T], None, None]:
    executor = make_executor(spec)
    in_flight: dict[Future[TaskResult[T]], _Flight] = {}

    def submit(task: Task, deaths: int = 0) -> None:
        future = executor.start(task.name, timeout, _work, fn, task)
        in_flight[future] = _Flight(task, time.monotonic(), deaths)

    try:
        while True:
            # Every worker has a task, and one more waits.
            while len(in_flight) < executor.workers + (0 if executor.in_process else 1):
                task = next(tasks, None)
                if task is None:
                    break
                submit(task)
            if not in_flight:
                break
            done, _ = wait(in_flight, return_when=FIRST_COMPLETED)
            for future in [future for future in in_flight if future in done]:  # in the order of submission
                flight = in_flight.pop(future)
                result = _result_of(future, flight, spec)
                if result is None:
                    submit(flight.task, flight.deaths + 1)
                else:
                    yield result
    except BaseException:  # an error, Ctrl-C, or the caller left the loop: do not wait for running tasks
        executor.kill()
        raise
    executor.shutdown()


def _result_of(future: Future[TaskResult[T]], flight: _Flight, spec: str) -> TaskResult[T] | None:
    """The outcome of a task; None if it must run again."""
    name, seconds = flight.task.name, time.monotonic() - flight.started
    if future.cancelled():
        raise ConnectionError(f"{name} was cancelled by {spec}: its scheduler has ended; start it again")
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, TaskLate):
        return TaskResult(name, "timeout", error=str(error), seconds=seconds)
    if not isinstance(error, WorkerDied):  # `_work` never raises: the value or the arguments could not be sent
        return TaskResult(name, "error", error="".join(traceback.format_exception(error)), seconds=seconds)
    if flight.deaths < RETRIES:
        log.warning("a worker died while it ran %s; it runs again", name)
        return None
    return TaskResult(name, "died", error=f"{error}; {flight.deaths + 1} times", seconds=seconds)


def _work(fn: Callable[..., T], task: Task) -> TaskResult[T]:
    """In the worker: run the task. Errors travel as text, since not every exception unpickles."""
    started = time.perf_counter()
    try:
        value = fn(*task.args)
    except (Exception, SystemExit):  # noqa: BLE001 - whatever it raised, the other tasks continue
        return TaskResult(task.name, "error", error=traceback.format_exc(), seconds=time.perf_counter() - started)
    return TaskResult(task.name, "ok", value, seconds=time.perf_counter() - started)
