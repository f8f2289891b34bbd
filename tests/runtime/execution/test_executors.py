"""Reading `--parallelism`, and what may be imported when. What executors do is in tests/contract."""

from __future__ import annotations

import subprocess
import sys

import pytest

from echelon.runtime.execution.executors import ExecutorSpec, cores, make_executor, n_workers


def test_specs_are_read() -> None:
    assert ExecutorSpec.parse("serial") == ExecutorSpec("serial")
    assert ExecutorSpec.parse("loky:4") == ExecutorSpec("loky", workers=4)
    assert ExecutorSpec.parse("loky:0.5") == ExecutorSpec("loky", fraction=0.5)
    assert ExecutorSpec.parse("parallel:2") == ExecutorSpec("parallel", workers=2)
    assert ExecutorSpec.parse("dask:tcp://host:8786") == ExecutorSpec("dask", address="tcp://host:8786")


def test_sizes() -> None:
    assert [n_workers(spec) for spec in ("serial", "loky:4", "parallel:3")] == [1, 4, 3]
    assert n_workers("loky") == n_workers("loky:1.0") == n_workers("dask") == cores()
    assert n_workers("loky:0.001") == 1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("lokky:2", "use one of serial, loky"),
        ("", "use one of serial, loky"),
        ("loky:0", "loky:0 has no workers; use loky:1"),
        ("loky:-2", "loky:-2 has no workers"),
        ("loky:1.5", "not a share of the cores"),
        ("loky:0.0", "not a share of the cores"),
        ("parallel:many", "use parallel:4 or parallel:0.5"),
        ("loky:", "use loky:4"),
        ("serial:2", "serial takes no argument"),
        ("dask:4", "use dask:tcp://host:8786"),
    ],
)
def test_a_bad_spec_is_refused_with_the_cure(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_executor(spec)


def test_values_check_themselves() -> None:
    with pytest.raises(ValueError, match="not both"):
        ExecutorSpec("loky", workers=2, fraction=0.5)
    with pytest.raises(ValueError, match="takes no number"):
        ExecutorSpec("dask", workers=2)
    with pytest.raises(ValueError, match="use dask:tcp"):
        ExecutorSpec("loky", address="tcp://host:1")


def test_importing_imports_no_pool() -> None:
    code = (
        "import sys, echelon.runtime.execution.executors, echelon.runtime.execution.tasks as t\n"
        "assert [r.value for r in t.run_tasks('serial', abs, [t.Task('a', (-1,))])] == [1]\n"
        "assert not {'loky', 'dask', 'distributed', 'torch', 'numpy'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_dask_the_error_has_the_command() -> None:
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "from echelon.runtime.execution.executors import make_executor\n"
        "try: make_executor('dask')\n"
        "except ImportError as error: assert \"pip install 'echelon[dask]'\" in str(error), error\n"
        "else: raise SystemExit('no error')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_serial_lets_ctrl_c_through_and_refuses_work_after_its_end() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    executor = make_executor("serial")
    with pytest.raises(KeyboardInterrupt):
        executor.submit(interrupt)
    executor.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)
