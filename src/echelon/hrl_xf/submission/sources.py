"""The source files that an agent needs to play, found by following imports; rewritten to import each other relatively.

A package of files that import each other relatively works under any name and beside any other version of itself. Of
Echelon's own modules only imports at the top of a file are followed: what is imported inside a function is not for
play. In the agent's own files every import is followed.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from echelon.hrl_xf.competitors.agent_code import root_of, source_of

OWN = "echelon"
_Import = ast.Import | ast.ImportFrom


class ExportError(ValueError):
    """An agent that cannot be exported, and what to change."""


@dataclass(frozen=True)
class Sources:
    """What an agent's module consists of."""

    files: dict[str, Path]
    """by name of the module"""
    outside: frozenset[str]
    """top-level names of the modules of others that are imported, beside Python's own"""

    @property
    def tops(self) -> frozenset[str]:
        """Top-level names of the modules that are moved."""
        return frozenset(name.partition(".")[0] for name in self.files)


def sources_of(module: str) -> Sources:
    """All modules that `module` needs, itself first.

    They are those of Echelon, of the module's own top-level package and, unless that is an installed one, those beside
    it.
    """
    top = _top(module)
    try:
        roots = {OWN: root_of(OWN), top: root_of(top)}
    except ModuleNotFoundError as error:
        raise ExportError(str(error)) from error
    installed = top == OWN or bool({"site-packages", "dist-packages"} & set(roots[top].parts))
    found: dict[str, Path] = {}
    outside: set[str] = set()

    def source(name: str) -> Path | None:
        first = _top(name)
        if first not in roots and not installed and first not in sys.stdlib_module_names:
            beside = importlib.util.find_spec(first)
            if beside is not None and beside.origin and root_of(first) == roots[top]:
                roots[first] = roots[top]
        return source_of(roots[first], name) if first in roots else None

    todo = [module]
    while todo:
        name = todo.pop()
        path = source(name)
        if path is None:
            outside.add(_top(name))
        elif name not in found:
            found[name] = path
            parents = name.split(".")[:-1]
            todo += [".".join(parents[: i + 1]) for i in range(len(parents))]
            for base, names in _imports(name, path):
                todo.append(base)
                todo += [f"{base}.{n}" for n in names if source(f"{base}.{n}") is not None]
    if module not in found:
        raise ExportError(f"there is no source file of {module}")
    return Sources(found, frozenset(outside - sys.stdlib_module_names))


def relative_source(name: str, path: Path, tops: frozenset[str]) -> str:
    """The text of a module, with imports of modules below `tops` made relative to the package they are moved to."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    dots = "." * (len(_package(name, path)) + 1)
    for node in ast.walk(ast.parse(text)):
        at = getattr(node, "lineno", 1) - 1
        if isinstance(node, ast.ImportFrom) and not node.level and _top(node.module) in tops:
            lines[at] = re.sub(
                rf"from\s+{re.escape(str(node.module))}\b", f"from {dots}{node.module}", lines[at], count=1
            )
        elif isinstance(node, ast.Import) and any(_top(alias.name) in tops for alias in node.names):
            if len(node.names) > 1 or "." in node.names[0].name:
                raise ExportError(
                    f"{path}, line {at + 1}: `{ast.unparse(node)}` cannot be made relative; write "
                    f"`from {node.names[0].name} import …`"
                )
            lines[at] = re.sub(r"import\s+", f"from {dots} import ", lines[at], count=1)
    return "".join(lines)


def _top(name: str | None) -> str:
    return (name or "").partition(".")[0]


def _package(name: str, path: Path) -> list[str]:
    """The packages that a module is in."""
    return name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]


def _imports(name: str, path: Path) -> Iterator[tuple[str, list[str]]]:
    """What a module imports: a module, and the names that are taken from it."""
    package = _package(name, path)
    for node in _import_statements(ast.parse(path.read_bytes(), str(path)), inside_functions=_top(name) != OWN):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        else:
            above = package[: len(package) - node.level + 1] if node.level else []
            yield ".".join([*above, *([node.module] if node.module else [])]), [alias.name for alias in node.names]


def _import_statements(tree: ast.AST, inside_functions: bool) -> Iterator[_Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Import):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _import_statements(node, inside_functions)
