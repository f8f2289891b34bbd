"""A time limit inside a worker, in any thread, for code that knows nothing of it.

`deadline(seconds)` raises `DeadlineExceeded` in the thread that entered the block, by the one
means Python has for that: an asynchronous exception, delivered between two bytecodes. It may be
swallowed, by a bare `except:` or where Python itself drops exceptions (a `__del__`, a callback of the
garbage collector): then it comes again each second, and `raise_if_late` refuses to keep what was made
meanwhile. Code that never returns to the interpreter (a C loop, a blocking call) cannot be interrupted
at all; `hard_stop` ends the whole process then, so that the pool notices and goes on without it.
"""

from __future__ import annotations

import _thread
import ctypes
import faulthandler
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import filterfalse, repeat

AGAIN_SECONDS = 1.0
"""How long a block may take to end after the exception, before it gets another."""


class DeadlineExceeded(BaseException):
    """The block took longer than it may. Not an Exception: a world's own handlers must not swallow it."""


_entered = threading.local()
"""`deadlines`: those that this thread has entered; some may have ended."""


class deadline(_thread.RLock):  # type: ignore[misc]
    """Raise `DeadlineExceeded` in this thread if the block takes more than `seconds`; never after the block.

    The block holds a lock; as long as it does, the exception may come. A lock, because its `__exit__` is C:
    an `__exit__` in Python could itself be interrupted at its first instruction, before it ends anything.
    """

    seconds: float
    fired: bool
    """True once the exception was sent, even if the block swallowed it."""
    _used: bool

    def __new__(cls, seconds: float) -> deadline:
        if not seconds > 0:
            raise ValueError(f"a deadline of {seconds} s leaves no time; use a positive number, or None for no limit")
        self = super().__new__(cls)
        self.seconds = seconds
        self.fired = False
        self._used = False
        return self

    def __enter__(self) -> deadline:  # type: ignore[override]
        if self._used:
            raise RuntimeError("a deadline serves one block; make a new one")
        self._used = True
        go = threading.Lock()
        go.acquire()
        arguments = (threading.get_ident(), go)
        threading.Thread(target=self._watch, args=arguments, name="deadline", daemon=True).start()
        self.acquire()
        known: list[deadline] = vars(_entered).setdefault("deadlines", [])
        known[:] = [*(other for other in known if other.holds), self]
        try:
            go.release()  # the time begins
            return self
        except DeadlineExceeded:  # a very short time, or a very busy machine
            self.release()
            raise

    @property
    def holds(self) -> bool:
        """True in its own thread until the block ends."""
        return bool(self._is_owned())  # type: ignore[attr-defined]  # RLock has it; its stub does not say so

    def _watch(self, thread: int, go: threading.Lock) -> None:
        exceeded = {False: _named(self.seconds)}
        go.acquire()
        wait = self.seconds
        while not self.acquire(timeout=wait):  # the lock comes free when the block ends
            # Look at the lock and send the exception in one step: these are all C functions, and between them
            # no other thread runs. In two steps the block could end in between.
            held = filterfalse(self.acquire, (False,))
            if not list(map(_send, repeat(thread), map(exceeded.__getitem__, held))):
                return
            self.fired = True
            wait = AGAIN_SECONDS


def raise_if_late() -> None:
    """Raise `DeadlineExceeded` if a deadline around this call has sent it already and it got lost.

    To be called before something is kept: whoever swallowed the exception may have been cut short by it.
    """
    known: list[deadline] = vars(_entered).get("deadlines", [])
    for limit in known:
        if limit.fired and limit.holds:
            raise _named(limit.seconds)


def forget_pending() -> None:
    """Drop an exception that was sent to this thread and has not arrived.

    It is needed where a block may end by an exception of its own just when its time is up.
    """
    _send(threading.get_ident(), ctypes.py_object())


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


def _named(seconds: float) -> type[DeadlineExceeded]:
    """Only a class can be sent, so the message is in the class."""

    class Exceeded(DeadlineExceeded):
        def __str__(self) -> str:
            return f"it took more than {seconds:g} s"

    Exceeded.__qualname__ = DeadlineExceeded.__qualname__
    return Exceeded


# PYFUNCTYPE: called with the interpreter's lock held.
_send = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)
