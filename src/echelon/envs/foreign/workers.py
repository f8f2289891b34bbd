"""Worker processes for third-party environments: a block of worlds each, arrays in shared memory, commands by pipe.

A worker that dies (or does not answer in time) is replaced and its worlds' partial episodes are dropped. Nothing is
left behind: workers end when their pipe closes, which is also what the death of the parent does to it, and the shared
memory is unlinked by `close()`, at exit, or, after a kill, by multiprocessing's resource tracker.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echelon.envs.foreign.block import (
    Crash,
    EnvCrashedError,
    Layout,
    WorldBlock,
    check_crashes,
    layout,
    size_of,
    views_of,
    void_step,
)
from echelon.envs.foreign.vector import ForeignVectorEnv, TeamReward
from echelon.envs.foreign.world import EnvSetupError
from echelon.envs.random_streams import episode_seed

START_TIMEOUT = 120.0  # seconds to import and make the environments, at least
_SPAWN = multiprocessing.get_context("spawn")


class WorkerVectorEnv(ForeignVectorEnv):
    """Worlds in `workers` processes (default: one for each core, at most one for each world)."""

    def __init__(
        self,
        factory: str,
        num_envs: int,
        seed: int | Sequence[int] = 0,
        *,
        kwargs: Mapping[str, Any] | None = None,
        team_reward: TeamReward = "mean",
        workers: int | None = None,
        timeout: float = 600.0,
    ) -> None:
        super().__init__(factory, num_envs, seed, team_reward)
        count = min(num_envs, os.cpu_count() or 1) if workers is None else workers
        if not 1 <= count <= num_envs:
            raise ValueError(f"workers={count} must be 1 .. num_envs={num_envs}")
        self._kwargs, self._timeout = dict(kwargs or {}), timeout
        edges = np.linspace(0, num_envs, count + 1).astype(int)
        self._slices = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        self._processes = _Processes()
        weakref.finalize(self, self._processes.close)
        try:
            for rows in self._slices:  # start all, then wait for each
                self._processes.start(factory, self._kwargs, rows, num_envs)
            specs = [self._handshake(w) for w in range(count)]
            self.spec, self.masked = specs[0]
            arrays = layout(self.spec, num_envs, self.masked)
            self.arrays = views_of(arrays, self._processes.share(size_of(arrays)))
            self._layout = arrays
            for w in range(count):
                self._attach_memory(w)
        except BaseException:
            self.close()
            raise
        self._seed(self._first_seeds)

    def _handshake(self, worker: int) -> Any:
        """A new worker's first message: its environment's spec, or why it could not be made."""
        try:
            kind, content = self._processes.receive(worker, max(self._timeout, START_TIMEOUT))
        except (EOFError, OSError) as error:
            reason = f"its worker died while making it ({self._processes.exit_reason(worker, error)})"
            raise EnvSetupError(f"{self.factory}: {reason}") from None
        if kind == "refused":
            raise EnvSetupError(content)
        return content

    def _attach_memory(self, worker: int) -> None:
        self._processes.send(worker, self._processes.memory_name, self._layout)

    def _command(self, name: str, *arguments: Any) -> list[Crash]:
        dead: dict[int, str] = {}
        for w in range(len(self._slices)):
            try:
                self._processes.request(w, name, *self._share_of(w, arguments))
            except (EOFError, OSError) as error:
                dead[w] = self._processes.exit_reason(w, error)
        crashes: list[Crash] = []
        for w in range(len(self._slices)):
            if w not in dead:
                try:
                    crashes += self._answer(w)
                    continue
                except (EOFError, OSError) as error:
                    dead[w] = self._processes.exit_reason(w, error)
            crashes += self._replace(w, dead[w], lost_step=name == "step")
        return crashes

    def _share_of(self, worker: int, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Of a replay's (history, lengths), or of a mask of worlds, what concerns this worker."""
        rows = self._slices[worker]
        if len(arguments) == 2:
            history, lengths = arguments
            return history[:, rows], lengths[rows]
        return tuple(array[rows] for array in arguments)

    def _answer(self, worker: int) -> list[Crash]:
        kind, content = self._processes.receive(worker, self._timeout)
        if kind == "ended":
            self.close()
            raise EnvCrashedError(content)
        crashes, notes = content
        self._notes += notes
        return [Crash(*crash) for crash in crashes]

    def _replace(self, worker: int, reason: str, *, lost_step: bool) -> list[Crash]:
        """A new process for a dead one: its worlds lose their episodes and start again."""
        rows, crashes = self._slices[worker], list[Crash]()
        while True:
            if lost_step:
                void_step(self.arrays, rows)
            self.arrays["crashes"][rows] += 1
            for b in range(rows.start, rows.stop):
                seed = episode_seed(int(self.arrays["world_seed"][b]), max(int(self.arrays["episode"][b]), 0))
                crash = Crash(b, seed, f"worker process: {reason}", int(self.arrays["crashes"][b]))
                crashes.append(crash)
                try:
                    check_crashes(self.factory, crash)
                except EnvCrashedError:
                    self.close()
                    raise
            self._processes.restart(worker, self.factory, self._kwargs, rows, self.num_envs)
            self._handshake(worker)
            self._attach_memory(worker)
            try:
                self._processes.request(worker, "reset")
                return crashes + self._answer(worker)
            except (EOFError, OSError) as error:
                reason = self._processes.exit_reason(worker, error)

    def render(self, world: int = 0, colours: Sequence[str] | None = None) -> NDArray[np.uint8]:
        worker = next(w for w, rows in enumerate(self._slices) if rows.start <= world < rows.stop)
        self._processes.request(worker, "render", world - self._slices[worker].start)
        kind, content = self._processes.receive(worker, self._timeout)
        if kind == "ended":
            raise ValueError(content)
        return np.asarray(content)

    def close(self) -> None:
        self._whole = False
        self.arrays = {}  # views into the shared memory; it cannot be closed under them
        self._processes.close()


class _Processes:
    """The processes, their pipes and the shared memory: what must be released, apart from the environment."""

    def __init__(self) -> None:
        self.processes: list[BaseProcess] = []
        self.pipes: list[Connection] = []
        self.memory: SharedMemory | None = None
        self.unread: set[int] = set()
        """Workers whose last answer was not received, because the caller was interrupted while waiting for it."""
        self._owner = os.getpid()

    @property
    def memory_name(self) -> str:
        if self.memory is None:
            raise RuntimeError("the environment is closed")
        return self.memory.name

    def share(self, size: int) -> Any:
        self.memory = SharedMemory(create=True, size=size)
        return self.memory.buf

    def start(self, factory: str, kwargs: dict[str, Any], rows: slice, num_envs: int) -> None:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(
            target=_work, args=(theirs, factory, kwargs, rows, num_envs), name=f"echelon-env-{rows.start}", daemon=True
        )
        process.start()
        theirs.close()  # so that the worker's death closes the pipe
        self.processes.append(process)
        self.pipes.append(ours)

    def restart(self, worker: int, factory: str, kwargs: dict[str, Any], rows: slice, num_envs: int) -> None:
        self._end(worker, patience=0.0)
        self.unread.discard(worker)
        self.start(factory, kwargs, rows, num_envs)
        self.processes[worker], self.pipes[worker] = self.processes.pop(), self.pipes.pop()

    def request(self, worker: int, name: str, *arguments: Any) -> None:
        """Send a command; a pending answer to an earlier, interrupted command is discarded first."""
        if worker in self.unread:
            self.receive(worker, START_TIMEOUT)
        self.send(worker, name, *arguments)
        self.unread.add(worker)

    def send(self, worker: int, name: str, *arguments: Any) -> None:
        if not self.pipes:
            raise RuntimeError("the environment is closed; make a new one")
        self.pipes[worker].send((name, arguments))

    def receive(self, worker: int, timeout: float) -> tuple[str, Any]:
        if not self.pipes[worker].poll(timeout):
            raise TimeoutError(f"no answer for {timeout:g} s")
        answer: tuple[str, Any] = self.pipes[worker].recv()
        self.unread.discard(worker)
        return answer

    def exit_reason(self, worker: int, error: BaseException) -> str:
        """Why a worker ended, as far as it is known."""
        process = self.processes[worker]
        process.join(0.0 if isinstance(error, TimeoutError) else 5.0)
        return str(error) if process.exitcode is None else f"exit code {process.exitcode}"

    def close(self) -> None:
        """End all processes and free the memory; safe to call again, and from a forked child, where it does nothing."""
        if self._owner != os.getpid():
            return
        for w in range(len(self.processes)):
            with suppress(OSError):
                self.pipes[w].send(("close", ()))
        for w in range(len(self.processes)):
            self._end(w, patience=5.0)
        self.processes.clear()
        self.pipes.clear()
        self.unread.clear()
        if self.memory is not None:
            with suppress(BufferError):  # the caller still holds a view; unlinking frees it with the last one
                self.memory.close()
            self.memory.unlink()
            self.memory = None

    def _end(self, worker: int, patience: float) -> None:
        process = self.processes[worker]
        process.join(patience)
        if process.exitcode is None:
            process.kill()
            process.join()
        self.pipes[worker].close()


def _work(pipe: Connection, factory: str, kwargs: dict[str, Any], rows: slice, num_envs: int) -> None:
    """Main loop of a worker. It ends when the pipe closes, so a worker cannot outlive its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and closes the pipe
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # otherwise every worker prints a line of pygame
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            block = WorldBlock(factory, kwargs, rows.start, rows.stop - rows.start)
        except EnvSetupError as error:
            pipe.send(("refused", str(error)))
            return
        pipe.send(("ready", (block.spec, block.masked)))
        name, arguments = pipe.recv()
        if name == "close":
            return
        memory = SharedMemory(name)
        try:
            (arrays,) = arguments
            _serve(pipe, block, memory, arrays, rows)
        finally:
            block.arrays = {}
            with suppress(BufferError):
                memory.close()
            block.close()


def _serve(pipe: Connection, block: WorldBlock, memory: SharedMemory, arrays: Layout, rows: slice) -> None:
    block.arrays = {name: view[rows] for name, view in views_of(arrays, memory.buf).items()}
    while True:
        name, arguments = pipe.recv()
        if name == "close":
            return
        try:
            if name == "render":
                pipe.send(("done", block.render(*arguments)))
            else:
                pipe.send(("done", (block.command(name, *arguments), block.notes())))
        except (EnvCrashedError, ValueError) as error:
            pipe.send(("ended", str(error)))
