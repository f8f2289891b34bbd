"""Agents that keep state in their modules: put it back before each world.

A process plays many worlds. An agent that changes a module's variable, or a list its class shares, would carry what it
learnt in one world into the next, and the n-th world would depend on the ones before it (LitaAgentYR does). So the
variables of agents' modules are copied when they are first seen, and restored before every world.
"""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

_PLAIN = (bool, int, float, str, bytes, tuple, frozenset, type(None))
_CONTAINERS = (list, dict, set)

_saved: dict[str, list[tuple[Any, str, Any, Any]]] = {}
"""By module: (owner, name, the value itself, a copy of it)."""


def restore_modules(agent_types: Iterable[str]) -> None:
    """Make the modules of these agents (full class names) what they were when this process first saw them."""
    packages = set()
    for path in agent_types:
        package = path.rpartition(".")[0]
        importlib.import_module(package)
        packages.add(package)
    for name, module in list(sys.modules.items()):
        if any(name == package or name.startswith(package + ".") for package in packages):
            if name in _saved:
                _restore(_saved[name])
            else:
                _saved[name] = _save(module)


def _save(module: ModuleType) -> list[tuple[Any, str, Any, Any]]:
    owners: list[Any] = [module]
    owners += [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
    return [
        (owner, name, value, copy.deepcopy(_content(value)))
        for owner in owners
        for name, value in list(vars(owner).items())
        if not name.startswith("__") and _holds_state(value, module)
    ]


def _holds_state(value: Any, module: ModuleType) -> bool:
    """Plain values, containers, and objects of classes of the agent's own package."""
    if isinstance(value, _PLAIN + _CONTAINERS):
        return True
    package = module.__name__.rpartition(".")[0] or module.__name__
    return type(value).__module__.startswith(package) and not isinstance(value, type) and hasattr(value, "__dict__")


def _content(value: Any) -> Any:
    return value if isinstance(value, _PLAIN + _CONTAINERS) else vars(value)


def _restore(saved: list[tuple[Any, str, Any, Any]]) -> None:
    for owner, name, value, content in saved:
        if vars(owner).get(name) is not value:
            setattr(owner, name, value)
        if isinstance(value, _PLAIN):
            continue
        live = _content(value)
        live.clear()
        (live.extend if isinstance(live, list) else live.update)(copy.deepcopy(content))
