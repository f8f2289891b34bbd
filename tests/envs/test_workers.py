"""Worker processes: equal to the serial variant, survive crashes and deaths, and leave nothing behind."""

import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from echelon.envs.foreign.block import EnvCrashedError
from echelon.envs.foreign.vector import SerialVectorEnv
from echelon.envs.foreign.workers import WorkerVectorEnv
from echelon.envs.foreign.world import EnvSetupError
from echelon.envs.random_streams import episode_seed

HERE = Path(__file__).parent
SHM = Path("/dev/shm")


def ours() -> set[str]:
    """Shared memory that this process has mapped and that still has a name; other processes have theirs."""
    mapped = set(re.findall(r"psm_\w+", Path("/proc/self/maps").read_text()))
    return mapped & named()


def named() -> set[str]:
    """All shared memory of the machine that has a name."""
    return {p.name for p in SHM.iterdir() if p.name.startswith("psm_")}


def test_workers_equal_serial_through_crashes_and_resets(caplog: pytest.LogCaptureFixture) -> None:
    kwargs = {"length": 5, "trouble": "raise", "bad_seeds": [12, episode_seed(14, 1)]}
    rng = np.random.default_rng(0)
    before = ours()
    serial = SerialVectorEnv("odd_envs:counter", 5, [11, 12, 13, 14, 15], kwargs=kwargs)
    with WorkerVectorEnv("odd_envs:counter", 5, [11, 12, 13, 14, 15], kwargs=kwargs, workers=2) as workers:
        mine = ours() - before
        assert workers.spec == serial.spec
        a, b = serial.reset(), workers.reset()
        np.testing.assert_array_equal(a.observation, b.observation)
        saved = None
        for t in range(14):
            actions = rng.integers(0, 3, (5, 2))
            x, y = serial.step(actions), workers.step(actions)
            for name in ("observation", "state", "alive", "reward", "truncated", "dropped", "final_observation"):
                np.testing.assert_array_equal(x.__dict__[name], y.__dict__[name], err_msg=f"{name} at {t}")
            if t == 8:
                saved = workers.state_dict()
        assert saved is not None
        resumed = workers.load_state_dict(saved)
        np.testing.assert_array_equal(resumed.observation, saved["observation"])
    warnings = [r.getMessage() for r in caplog.records]
    assert len(warnings) == 4  # two crashes, each in both variants
    assert warnings[0] == warnings[1]
    assert mine
    assert not mine & named()


def test_a_dead_worker_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    kwargs = {"length": 6, "trouble": "exit", "bad_seeds": [52]}
    with WorkerVectorEnv("odd_envs:counter", 3, [51, 52, 53], kwargs=kwargs, workers=2) as env:
        env.reset()
        with caplog.at_level(logging.WARNING):
            steps = [env.step(np.ones((3, 2), dtype=int)) for _ in range(5)]
    lost = steps[2].dropped
    assert lost[1]  # and whoever lives in the same process, but not world 0
    assert lost.tolist() == [False, True, True]
    assert steps[2].truncated.tolist() == [False, True, True]
    assert steps[2].reward.tolist() == [1.0, 0.0, 0.0]
    assert steps[3].observation[1, 0].tolist() == pytest.approx([episode_seed(52, 1), 1, 2])
    assert steps[4].observation[0, 0].tolist() == [51, 5, 10]
    assert "world 1 crashed in the episode with seed 52 (worker process: exit code 7)" in caplog.text


def test_a_worker_killed_from_outside_is_replaced() -> None:
    with WorkerVectorEnv("odd_envs:counter", 2, [51, 52], workers=1) as env:
        env.reset()
        os.kill(env._processes.processes[0].pid or 0, signal.SIGKILL)
        step = env.step(np.ones((2, 2), dtype=int))
        assert step.dropped.all()
        assert not env.step(np.ones((2, 2), dtype=int)).dropped.any()


def test_a_worker_that_hangs_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    kwargs = {"trouble": "hang", "bad_seeds": [51], "bad_step": 1}
    with WorkerVectorEnv("odd_envs:counter", 1, [51], kwargs=kwargs, timeout=2.0) as env:
        env.reset()
        assert env.step(np.ones((1, 2), dtype=int)).dropped[0]
        assert not env.step(np.ones((1, 2), dtype=int)).dropped[0]
    assert "no answer for 2 s" in caplog.text


def test_three_deaths_in_a_row_end_the_run_and_clean_up() -> None:
    before = ours()
    env = WorkerVectorEnv("odd_envs:counter", 2, 1, kwargs={"trouble": "exit", "bad_step": 1}, workers=1)
    processes = env._processes.processes
    mine = ours() - before
    assert mine
    env.reset()
    actions = np.ones((2, 2), dtype=int)
    assert env.step(actions).dropped.all()
    assert env.step(actions).dropped.all()
    with pytest.raises(EnvCrashedError, match=r"world 0 crashed 3 times in a row.*exit code 7"):
        env.step(actions)
    assert not processes
    assert not mine & named()
    with pytest.raises(RuntimeError, match="closed"):
        env.reset()


def test_set_up_errors_come_back_as_one_message() -> None:
    with pytest.raises(EnvSetupError, match="discrete for all agents or Box for all"):
        WorkerVectorEnv("odd_envs:mixed", 2)
    with pytest.raises(ValueError, match=r"workers=3 must be 1 .. num_envs=2"):
        WorkerVectorEnv("odd_envs:counter", 2, workers=3)


def test_an_interrupted_step_is_not_saved_and_its_answer_not_taken_for_another() -> None:
    with WorkerVectorEnv("odd_envs:counter", 2, [51, 52], workers=1, kwargs={"slow": 0.5}) as env:
        env.reset()
        previous = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(KeyboardInterrupt):
                env.step(np.ones((2, 2), dtype=int))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, previous)
        with pytest.raises(RuntimeError, match="after an interrupted step"):
            env.state_dict()
        seen = env.reset([51, 52])
        assert seen.observation[:, 0].tolist() == [[51, 0, 0], [52, 0, 0]]
        assert env.step(np.ones((2, 2), dtype=int)).observation[:, 0].tolist() == [[51, 1, 2], [52, 1, 2]]


def interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def test_closing_twice_is_fine() -> None:
    env = WorkerVectorEnv("odd_envs:counter", 1)
    workers = [str(process.pid) for process in env._processes.processes]
    env.close()
    env.close()
    assert workers
    assert not any(running(pid) for pid in workers)


def running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


SCRIPT = """
import sys, time
import numpy as np
from echelon.envs.foreign.workers import WorkerVectorEnv
if __name__ == "__main__":
    env = WorkerVectorEnv("odd_envs:counter", 2, workers=2)
    env.reset()
    print(env._processes.memory_name, *[p.pid for p in env._processes.processes], flush=True)
    while True:
        env.step(np.zeros((2, 2), dtype=int))
        time.sleep(0.01)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_parents_end_leaves_neither_processes_nor_memory(how: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # ignored, if this runs in a script's background
    )
    assert parent.stdout is not None
    memory, *workers = parent.stdout.readline().split()
    assert (SHM / memory).exists()
    parent.send_signal(how)
    parent.wait(30)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        left = [pid for pid in workers if running(pid)]
        if not left and not (SHM / memory).exists():
            return
        time.sleep(0.05)
    pytest.fail(f"left behind: processes {left}, memory {(SHM / memory).exists()}")
