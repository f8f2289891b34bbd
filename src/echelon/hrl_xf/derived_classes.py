"""Agent classes made from other ones while the program runs, by names that any process can turn back into classes.

`ShieldedPenguinAgent` is PenguinAgent with a prefix; a class that is not on the roster carries its module in its name,
as hex digits: negmas reshapes names as it imports them (underscores go, letters after them become large).
"""

from __future__ import annotations

import importlib
from typing import Any

from echelon.hrl_xf import roster

_FROM = "From"


def derived_name(prefix: str, cls: type[Any]) -> str:
    """The name of the class made from `cls`."""
    name = cls.__name__
    known = name in roster.ROSTER and roster.agent_class(name) is cls
    return prefix + name if known else prefix + name + _FROM + cls.__module__.encode().hex()


def base_of(prefix: str, name: str, module: str) -> type[Any]:
    """The class a derived one is named after; `module` is where the name is looked for.

    Raises AttributeError, as a module's `__getattr__` must, where the name is not one of a derived class.
    """
    path = name.removeprefix(prefix)
    reason = ""
    if path != name:
        if path in roster.ROSTER:
            return roster.agent_class(path)
        cls, _, encoded = path.rpartition(_FROM)
        try:
            found: type[Any] = getattr(importlib.import_module(bytes.fromhex(encoded).decode()), cls)
        except (ValueError, ImportError) as error:
            reason = f": {error}"
        else:
            return found
    raise AttributeError(f"module {module!r} has no attribute {name!r}{reason}")
