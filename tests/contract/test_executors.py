"""One suite over every executor: what a caller may rely on, whatever runs beneath."""

from __future__ import annotations

import inspect
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from echelon.runtime.execution.executors import NamedExecutor, WorkerDied, make_executor, n_workers
from echelon.runtime.execution.tasks import Task, TaskResult, run_tasks
from echelon.runtime.execution.worker import WORKER_ENV

POOLS = ["loky:2", "parallel:2", "dask"]
ALL = ["serial", *POOLS]


def add(a: int, b: int) -> int:
    return a + b


def slow_add(a: int, b: int) -> int:
    time.sleep(0.2 if a == 0 else 0)
    return a + b


class Unreadable:
    """Cannot be unpickled."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        return int, ("no number",)


class OddError(Exception):
    """Cannot be unpickled: its constructor wants two arguments and has kept one."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(a)


def fail_oddly() -> None:
    raise OddError(1, 2)


def unreadable() -> Unreadable:
    return Unreadable()


def fail(a: int) -> None:
    raise ZeroDivisionError(f"task {a} fails")


def look() -> tuple[int, dict[str, str | None]]:
    return hash("a string whose hash worlds depend on"), {name: os.environ.get(name) for name in WORKER_ENV}


def mark(folder: str, same: int) -> int:
    Path(folder, f"{time.time_ns()}-{os.getpid()}").touch()
    return same


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def act(what: str, value: int) -> int:
    """A task of many kinds."""
    if what == "raise":
        raise OddError(value, value)
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "die-answering":  # with half an answer in the pipe
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_name != "serve":
            frame = frame.f_back
        assert frame is not None
        os.write(frame.f_locals["answers"].fileno(), struct.pack("!i", 10**6) + b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "exit":
        os._exit(7)
    if what == "system-exit":
        sys.exit(3)
    if what == "loop":
        while True:
            pass
    if what == "swallow":  # an agent that catches everything
        for _ in range(10**9):
            try:
                time.sleep(0.01)
            except BaseException:  # noqa: BLE001 - that is what is tested
                break
        while True:
            time.sleep(0.01)
    if what == "blocked":
        time.sleep(600)
    if what == "in C":  # one call that keeps the interpreter's lock
        sum(repeat(1))
    return value * value


def die_once(folder: str, value: int) -> int:
    """Die the first time; the second time answer."""
    been = Path(folder, str(value))
    if not been.exists():
        been.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value


@pytest.fixture(scope="module", params=ALL)
def executor(request: pytest.FixtureRequest) -> Iterator[NamedExecutor]:
    with make_executor(request.param) as made:
        yield made


def by_name(results: Iterator[TaskResult[int]]) -> dict[str, TaskResult[int]]:
    found: dict[str, TaskResult[int]] = {}
    for result in results:
        assert result.name not in found, f"{result.name} was answered twice"
        found[result.name] = result
    return found


def test_results_keep_the_order_of_submission(executor: NamedExecutor) -> None:
    futures = [executor.submit(slow_add, a, 1) for a in range(6)]
    assert [future.result() for future in futures] == [1, 2, 3, 4, 5, 6]
    assert list(executor.map(add, range(4), range(4))) == [0, 2, 4, 6]


def test_an_exception_reaches_the_caller(executor: NamedExecutor) -> None:
    future = executor.submit(fail, 3)
    with pytest.raises(ZeroDivisionError, match="task 3 fails"):
        future.result()
    assert executor.submit(add, 1, 1).result() == 2


def test_what_cannot_be_unpickled_is_an_error_and_not_a_death(executor: NamedExecutor) -> None:
    futures: list[Future[Any]] = [
        executor.submit(fail_oddly),
        executor.submit(unreadable),
        executor.submit(type, Unreadable()),
    ]
    if executor.in_process:
        pytest.skip("serial pickles nothing")
    for future, message in zip(futures, ("OddError", "no number", "no number"), strict=True):
        with pytest.raises((RuntimeError, ValueError), match=message):
            future.result()
    assert executor.submit(add, 1, 1).result() == 2


def test_equal_tasks_run_each(executor: NamedExecutor, tmp_path: Path) -> None:
    futures = [executor.submit(mark, str(tmp_path), 5) for _ in range(8)]
    assert [future.result() for future in futures] == [5] * 8
    assert len(list(tmp_path.iterdir())) == 8


def test_workers_have_one_thread_and_one_hash_seed(executor: NamedExecutor) -> None:
    if executor.in_process:
        pytest.skip("serial runs in the caller, whose environment is its own")
    expected = subprocess.run(
        [sys.executable, "-c", "print(hash('a string whose hash worlds depend on'))"],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    for number, variables in (executor.submit(look).result() for _ in range(6)):
        assert variables == dict(WORKER_ENV)
        assert number == int(expected.stdout)


@pytest.mark.parametrize("spec", POOLS)
def test_a_workers_death_names_the_task_and_leaves_the_environment_alone(spec: str) -> None:
    before = dict(os.environ)
    with make_executor(spec) as executor:
        assert executor.workers == n_workers(spec) == 2 or spec == "dask"
        future = executor.start("world 0131 seed 88", None, die)
        with pytest.raises(WorkerDied, match="world 0131 seed 88") as caught:
            future.result()
        assert caught.value.task_name == "world 0131 seed 88"
        assert executor.submit(add, 1, 2).result() == 3
    assert dict(os.environ) == before


@pytest.mark.parametrize("spec", ALL)
def test_one_bad_task_does_not_touch_the_others(spec: str) -> None:
    tasks = [Task(f"good {i}", ("answer", i)) for i in range(12)]
    tasks.insert(2, Task("raises", ("raise", 1)))
    tasks.insert(4, Task("exits politely", ("system-exit", 1)))
    tasks.insert(6, Task("loops", ("loop", 1)))
    tasks.insert(8, Task("swallows", ("swallow", 1)))
    tasks.insert(9, Task("kills", ("die", 1)))
    tasks.insert(10, Task("kills in its answer", ("die-answering", 1)))
    tasks.insert(11, Task("cannot be sent", ("answer", threading.Lock())))
    tasks.insert(12, Task("cannot be read", ("answer", Unreadable())))
    found = by_name(run_tasks(spec, act, tasks, timeout=1.0))
    assert set(found) == {task.name for task in tasks}
    status = {name: result.status for name, result in found.items() if not name.startswith("good")}
    expected = {"raises": "error", "exits politely": "error", "loops": "timeout", "swallows": "timeout"}
    expected |= {"kills": "died", "kills in its answer": "died", "cannot be sent": "error", "cannot be read": "error"}
    assert status == expected
    assert "OddError" in (found["raises"].error or "")
    assert " in act\n" in (found["loops"].error or "")  # the stack shows where it was
    assert (found["loops"].error or "").endswith("loops took more than 1 s and was ended with its worker")
    for name, result in found.items():
        if name.startswith("good"):
            assert (result.status, result.value) == ("ok", int(name.split()[1]) ** 2)


@pytest.mark.parametrize("spec", ALL)
def test_a_task_that_cannot_be_interrupted_ends_with_its_worker(spec: str) -> None:
    tasks = [Task(f"good {i}", ("answer", i)) for i in range(5)]
    tasks.insert(1, Task("blocked", ("blocked", 1)))
    tasks.insert(3, Task("in C", ("in C", 1)))
    found = by_name(run_tasks(spec, act, tasks, timeout=2.0))
    assert [found.pop(name).status for name in ("blocked", "in C")] == ["timeout", "timeout"]
    assert {name: result.value for name, result in found.items()} == {f"good {i}": i * i for i in range(5)}


@pytest.mark.parametrize("spec", POOLS)
def test_a_task_that_died_by_chance_runs_again(spec: str, tmp_path: Path) -> None:
    tasks = [Task(f"t{i}", (str(tmp_path), i)) for i in range(3)]
    found = by_name(run_tasks(spec, die_once, tasks))
    assert {name: (r.status, r.value) for name, r in found.items()} == {f"t{i}": ("ok", i) for i in range(3)}


@pytest.mark.parametrize("spec", ALL)
def test_many_tiny_tasks_finish(spec: str) -> None:
    found = by_name(run_tasks(spec, act, (Task(str(i), ("answer", i)) for i in range(300)), timeout=60))
    assert {name: result.value for name, result in found.items()} == {str(i): i * i for i in range(300)}


@pytest.mark.slow
@pytest.mark.parametrize("spec", ALL)
def test_thousands_of_tasks_with_deaths_among_them_finish(spec: str) -> None:
    deadly = {500, 501, 1500, 2999}
    tasks = (Task(str(i), ("exit" if i in deadly else "answer", i)) for i in range(3000))
    found = by_name(run_tasks(spec, act, tasks, timeout=60))
    assert {int(name) for name, result in found.items() if result.status == "died"} == deadly
    assert {int(name) for name, result in found.items() if result.status == "ok"} == set(range(3000)) - deadly


TRACED = """
import sys
from echelon.runtime.execution.tasks import Task, run_tasks

def work(seconds):
    import time
    time.sleep(seconds)

def worker_traced(_):
    sys.settrace(lambda *a: None)
    return (lambda: 1)()

if __name__ == "__main__":
    spec = sys.argv[1]
    tasks = [Task("ok", (0,)), Task("late", (600,)), Task("raises", ("x",))]
    assert sorted(r.status for r in run_tasks(spec, work, tasks, timeout=0.5)) == ["error", "ok", "timeout"]
    assert [r.value for r in run_tasks(spec, worker_traced, [Task(str(i), (i,)) for i in range(3)])] == [1, 1, 1]
    sys.settrace(lambda *a: None)
    assert (lambda: 1)() == 1
"""


@pytest.mark.parametrize("spec", ALL)
def test_a_process_can_be_traced_after_any_task(spec: str, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(TRACED)
    subprocess.run([sys.executable, str(script), spec], check=True, timeout=100)


SCRIPT = """
import sys, time, os
from echelon.runtime.execution.tasks import Task, run_tasks

def say(text):
    os.write(1, f"{text}\\n".encode())  # in one piece: several processes write here

def work(seconds):
    say(f"pid {os.getpid()}")
    time.sleep(seconds)

if __name__ == "__main__":
    results = run_tasks(sys.argv[1], work, [Task(str(i), (0 if i == 0 else 600,)) for i in range(9)])
    next(results)
    if sys.argv[2] == "close":
        results.close()
        say("closed")
    else:
        say("ready")
        next(results)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: list[int]) -> bool:
    """True when no process of these is left; waits as long as a busy machine may need, not as long as a task."""
    end = time.monotonic() + 60
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(alive(pid) for pid in pids)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", ["close", "ctrl-c", "kill -9"])
@pytest.mark.parametrize("spec", ["loky:2", pytest.param("parallel:2", marks=pytest.mark.slow), "dask"])
def test_no_worker_outlives_the_run(spec: str, how: str, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), spec, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # ignored, if this runs in a script's background
    )
    assert process.stdout is not None
    pids: set[int] = set()
    for line in process.stdout:
        if line.startswith("pid"):
            pids.add(int(line.split()[1]))
        elif line.strip() in ("ready", "closed"):
            break
    if how == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to everybody
    elif how == "kill -9":
        process.kill()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == {"close": 0, "ctrl-c": -signal.SIGINT, "kill -9": -signal.SIGKILL}[how], errors
    assert pids
    assert gone(sorted(pids))
