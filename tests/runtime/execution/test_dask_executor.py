"""A scheduler that is already running: used if its workers are like ours, refused with the cure if not."""

from __future__ import annotations

import os
from collections.abc import Iterator

import distributed
import pytest

from echelon.runtime.execution import dask_executor
from echelon.runtime.execution.dask_executor import DaskExecutor
from echelon.runtime.execution.executors import make_executor, n_workers
from echelon.runtime.execution.worker import WORKER_ENV, restore


@pytest.fixture
def usual_cluster() -> Iterator[str]:
    """A cluster as dask itself starts it."""
    before = {name: os.environ.get(name) for name in os.environ.keys() | WORKER_ENV.keys()}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        yield str(cluster.scheduler_address)
    restore(before)


def test_a_running_scheduler_is_used_and_left_running() -> None:
    with DaskExecutor(None, 1) as owner:
        spec = f"dask:{owner._cluster.scheduler_address}"
        assert n_workers(spec) == 1
        with make_executor(spec) as guest:
            assert guest.submit(abs, -3).result() == 3
            guest.kill()
        assert owner.submit(abs, -4).result() == 4


def test_workers_that_may_not_start_processes_are_refused(usual_cluster: str) -> None:
    with pytest.raises(ValueError, match=r"may not start processes.*start it with: dask worker tcp://.* --no-nanny"):
        make_executor(f"dask:{usual_cluster}")


def test_a_task_runs_apart_from_the_workers_own_threads() -> None:
    with DaskExecutor(None, 1) as executor:
        first, again = (executor.submit(os.getpid).result() for _ in range(2))
        (worker,) = executor._client.run(os.getpid).values()
        assert first == again != worker
        assert executor.submit(os.getppid).result() == worker


def test_no_scheduler_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_executor, "CONNECT_SECONDS", 1)
    with pytest.raises(
        ConnectionError, match=r"no dask scheduler answers at tcp://127.0.0.1:9 .*dask scheduler --port 9"
    ):
        make_executor("dask:tcp://127.0.0.1:9")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster,
        pytest.raises(ConnectionError, match=r"has no workers; start some with: .*dask worker"),
    ):
        make_executor(f"dask:{cluster.scheduler_address}")
