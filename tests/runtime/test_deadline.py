"""The time limit: it comes in any thread, again if swallowed, and never after its block."""

from __future__ import annotations

import threading
import time

import pytest

from echelon.runtime.deadline import DeadlineExceeded, deadline, raise_if_late


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_it_ends_a_loop_and_says_the_limit() -> None:
    with pytest.raises(DeadlineExceeded, match=r"more than 0\.05 s"), deadline(0.05):
        spin(60)


def test_handlers_of_exception_do_not_swallow_it() -> None:
    def stubborn() -> None:
        while True:
            try:
                spin(60)
            except Exception:  # noqa: BLE001 - what agents do
                continue

    with pytest.raises(DeadlineExceeded), deadline(0.05):
        stubborn()


def test_it_comes_again_when_swallowed() -> None:
    times = 0

    def swallow_once() -> None:
        nonlocal times
        while True:
            try:
                spin(60)
            except DeadlineExceeded:
                times += 1
                if times == 2:
                    raise

    with pytest.raises(DeadlineExceeded), deadline(0.05) as limit:
        swallow_once()
    assert limit.fired


class Swallows:
    """Where Python drops exceptions: in its own finaliser."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __del__(self) -> None:
        spin(self.seconds)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_was_made_after_it_got_lost_is_not_kept() -> None:
    def lose_it() -> None:
        raise_if_late()  # not yet
        with deadline(60):
            pass
        Swallows(0.5)
        raise_if_late()

    with pytest.raises(DeadlineExceeded, match=r"more than 0\.05 s"), deadline(0.05):
        lose_it()
    raise_if_late()  # outside nobody is late
    with deadline(60):
        raise_if_late()


def test_it_works_in_a_thread_and_leaves_the_others_alone() -> None:
    seen: list[str] = []

    def limited() -> None:
        try:
            with deadline(0.05):
                spin(60)
        except DeadlineExceeded:
            seen.append("limited")

    thread = threading.Thread(target=limited)
    thread.start()
    spin(0.3)  # the exception must not come here
    thread.join()
    assert seen == ["limited"]


@pytest.mark.parametrize("rounds", [150, pytest.param(5_000, marks=pytest.mark.slow)])
def test_it_never_comes_after_the_block(rounds: int) -> None:
    """Blocks that end at about their limit: the exception comes inside or not at all."""
    inside = outside = 0
    try:
        for i in range(rounds):
            try:
                with deadline(0.002):
                    spin(0.002 + 0.0005 * (i % 50))  # a thread gets its turn only every 5 ms
            except DeadlineExceeded:
                inside += 1
            for _ in range(50):  # places where a late one would strike
                outside += 0
        spin(1.3)  # and none comes a second later
    except DeadlineExceeded:
        outside += 1
    assert outside == 0
    assert inside > 0


def test_a_deadline_in_a_deadline() -> None:
    def inner() -> None:
        with pytest.raises(DeadlineExceeded, match=r"0\.05 s"), deadline(0.05):
            spin(60)
        spin(60)

    with pytest.raises(DeadlineExceeded, match=r"0\.2 s"), deadline(0.2):
        inner()


def test_misuse_is_refused() -> None:
    limit = deadline(60)
    with limit:
        pass
    with pytest.raises(RuntimeError, match="serves one block"), limit:
        pass
    with pytest.raises(ValueError, match="leaves no time"):
        deadline(0)
