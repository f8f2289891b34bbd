"""What `run_tasks` refuses, and how lazily it takes tasks. How tasks fail is in tests/contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from echelon.runtime.execution.tasks import Task, TaskResult, run_tasks


def test_bad_arguments_are_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="use one of serial"):
        run_tasks("lokki", abs, [])
    with pytest.raises(ValueError, match="timeout=0 leaves no time"):
        run_tasks("serial", abs, [], timeout=0)
    with pytest.raises(ValueError, match="use a tuple"):
        Task("a", [1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ok means no error"):
        TaskResult("a", "ok", 1, "but")


def test_no_tasks_give_no_results() -> None:
    assert list(run_tasks("loky:2", abs, [])) == []


def test_tasks_are_taken_as_workers_come_free() -> None:
    taken = []

    def endless() -> Iterator[Task]:
        for i in range(10**9):
            taken.append(i)
            yield Task(str(i), (-i,))

    results = run_tasks("serial", abs, endless())
    assert [next(results).value for _ in range(3)] == [0, 1, 2]
    results.close()
    assert taken == [0, 1, 2]


def test_an_error_of_the_callers_iterable_is_the_callers() -> None:
    def broken() -> Iterator[Task]:
        yield Task("a", (-1,))
        raise LookupError("no more")

    results = run_tasks("serial", abs, broken())
    assert next(results).value == 1
    with pytest.raises(LookupError, match="no more"):
        next(results)
