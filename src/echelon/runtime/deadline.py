"""A time limit inside a worker, in any thread, for code that knows nothing of it.

`deadline(seconds)` raises `DeadlineExceeded` in the thread that entered the block, by the one
means Python has for that: an asynchronous exception, delivered between two bytecodes. Code that
swallows it gets it again each second. Code that never returns to the interpreter (a C loop, a
blocking call) cannot be interrupted at all; `hard_stop` ends the whole process then, so that the
pool notices and goes on without it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

AGAIN_SECONDS = 1.0
"""How long a block may take to end after the exception, before it gets another."""


class DeadlineExceeded(BaseException):
    """The block took longer than it may. Not an Exception: a world's own handlers must not swallow it."""


class deadline:
    """Raise `DeadlineExceeded` in this thread if the block takes more than `seconds`; never after the block."""

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"a deadline of {seconds} s leaves no time; use a positive number, or None for no limit")
        self.seconds = seconds
        self.fired = False
        """True once the exception was raised, even if the block swallowed it."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = 0
        self._frame: FrameType | None = None

    def __enter__(self) -> deadline:
        self._thread = threading.get_ident()
        self._frame = sys._getframe(1)
        threading.Thread(target=self._watch, name="deadline", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()
        if kind is DeadlineExceeded and self.fired:
            raise DeadlineExceeded(f"it took more than {self.seconds:g} s") from error

    def end(self) -> None:
        """No exception comes after this. Safe to call twice."""
        try:
            self._end()
        except DeadlineExceeded:
            self._end()  # it came too late to matter, and the next would be a second away

    def _end(self) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._ended.set()
                self._frame = None
                _set_exception(self._thread, None)  # one may be set and not yet delivered

    def _watch(self) -> None:
        wait = self.seconds
        while not self._ended.wait(wait):
            with self._lock:
                if self._ended.is_set() or not self._inside():
                    return
                self.fired = True
                _set_exception(self._thread, DeadlineExceeded)
            wait = AGAIN_SECONDS

    def _inside(self) -> bool:
        """True while the frame that entered the block runs.

        The exception can land on the very first instruction of `__exit__`, which then ends nothing;
        the frame's own end still does.
        """
        frame = sys._current_frames().get(self._thread)
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        return frame is not None


@contextmanager
def hard_stop(seconds: float | None) -> Iterator[None]:
    """End this process if the block takes more than `seconds`, with the stack of every thread on stderr.

    The timer is faulthandler's own thread, which runs even when a C function keeps the interpreter's lock.
    """
    if seconds is None:
        yield
        return
    faulthandler.dump_traceback_later(seconds, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def default_grace(seconds: float) -> float:
    """How long after its deadline a task may still be inside before the hard stop."""
    return max(10.0, 0.5 * seconds)


def _set_exception(thread: int, error: type[BaseException] | None) -> None:
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
    set_exception(ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error))
