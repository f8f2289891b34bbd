"""The processes of `--learners N`, or those that torchrun started: they collect and learn together over gloo."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.process import BaseProcess

import torch

from echelon.hmasd.options import TrainOptions
from echelon.onpolicy.groups import Groups, ProcessGroups
from echelon.runtime.board import free_port

PORT = 29_500
LEARNER_TIMEOUT = timedelta(hours=2)
"""how long learners wait for one that is alive and late, as while it evaluates; one that died is noticed at once"""

EXIT_SECONDS = 5.0

Follow = Callable[[TrainOptions, Groups], None]


@contextmanager
def learners(options: TrainOptions, follow: Follow) -> Iterator[Groups]:
    """The groups that this process computes; the other processes of this machine run `follow` meanwhile."""
    count = options.config.learning_groups
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun: its environment says who and where
        with process_group("env://"):
            yield ProcessGroups(count)
    elif options.learners == 1:
        yield Groups(count)
    else:
        port = free_port(PORT)
        others = start_learners(options, follow, port)
        try:
            with process_group(local_address(port), 0, options.learners):
                yield ProcessGroups(count)
            for other in others:
                other.join()
        except RuntimeError as error:
            if "gloo" not in str(error):
                raise
            others[0].join(EXIT_SECONDS)  # a peer is gone: its end is known a moment later than that of its connection
            dead = [f"learner {i} (exit code {p.exitcode})" for i, p in enumerate(others, 1) if p.exitcode]
            told = f"{', '.join(dead) or 'a learner'} ended early; the same command resumes from the last checkpoint"
            raise OSError(told) from error
        finally:
            for other in others:
                other.terminate()
                other.join()


def start_learners(options: TrainOptions, follow: Follow, port: int) -> list[BaseProcess]:
    """The learners beside this one."""
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_follow, args=(options, follow, rank, port), name=f"learner {rank}")
        for rank in range(1, options.learners)
    ]
    for process in processes:
        process.start()
    return list(processes)


def _follow(options: TrainOptions, follow: Follow, rank: int, port: int) -> None:
    torch.set_num_threads(1)
    with process_group(local_address(port), rank, options.learners):
        follow(options, ProcessGroups(options.config.learning_groups))


def local_address(port: int) -> str:
    """Where learners of one machine meet."""
    return f"tcp://127.0.0.1:{port}"


@contextmanager
def process_group(where: str, rank: int = -1, size: int = -1) -> Iterator[None]:
    """A member of torch.distributed's group; who it is stands in the environment if it is not said."""
    torch.distributed.init_process_group("gloo", init_method=where, timeout=LEARNER_TIMEOUT, rank=rank, world_size=size)
    try:
        yield
    finally:
        with contextlib.suppress(RuntimeError):  # a peer may be gone
            torch.distributed.destroy_process_group()
