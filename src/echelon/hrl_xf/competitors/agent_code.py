"""Which code an agent runs, as a digest: a result of code that has changed since is not a result of the agent.

The code of a module is its own file and those of the modules it imports, by `import` statements anywhere in them, as
far as they are in the same place as the module: in the working directory for `myagent.py`, in its own top-level
package for an installed one. If the module is a package, all files of its folder count, weights and tables too.
Echelon's own code counts wherever it is imported, so the code of LitaAgentHRL is all that `echelon.hrl_xf.agent`
needs, however its files are arranged; `echelon.runtime` knows no agents and does not count. scml, negmas and
scml-agents are their versions.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import msgspec

from echelon.hrl_xf.competitors import roster
from echelon.hrl_xf.competitors.specs import AgentSpec
from echelon.hrl_xf.weights import BUNDLED

_OWN, _KNOWS_NO_AGENTS = "echelon", "echelon.runtime"
_BY_VERSION = ("scml", "negmas")
_SHIELD = "echelon.hrl_xf.competitors.shield"


def versions() -> dict[str, str]:
    """Of everything that decides a world except the agents' own code."""
    return {name: version(name) for name in ("echelon", "scml", "negmas", "scml-agents")}


_Digests = dict[str, str]
"""By name of a file."""

_loaded: dict[str, _Digests] = {}
"""By module: its files when this process first played with it. Edited since, they are not what plays here."""


class PlayedBy(msgspec.Struct, frozen=True):
    """Which code plays a world of the arena."""

    competitor: str
    """a digest"""
    field: str
    """one of all agents of the field"""
    versions: dict[str, str]


class OtherCodeError(RuntimeError):
    """A process has loaded other code than the command that gave it a world to play."""


def codes_of(specs: Iterable[AgentSpec], loaded: dict[str, _Digests] | None = None) -> dict[str, str]:
    """By label: a digest of what each agent is and of the code and weights it runs. Files are read once.

    `loaded` holds the digests of modules that are not to be read again.
    """
    known = {} if loaded is None else loaded

    def digests(module: str) -> _Digests:
        if module not in known:
            files = module_files(module)
            known[module] = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
        return known[module]

    return {spec.label: _code(spec, digests) for spec in specs}


def played_by(competitors: Iterable[AgentSpec], field: Iterable[AgentSpec]) -> dict[str, PlayedBy]:
    """By label: the code that plays if a world is played now."""
    specs, now = list(competitors), versions()
    codes, around = codes_of(specs), _together(codes_of(field))
    return {spec.label: PlayedBy(codes[spec.label], around, now) for spec in specs}


def _together(codes: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(codes.items())).encode()).hexdigest()[:16]


def check_loaded(specs: Iterable[AgentSpec], expected: Mapping[str, str]) -> None:
    """Raise if this process has loaded other code of an agent than `expected`, by label.

    A worker that outlives a command (dask), or runs on another machine, may have.
    """
    found = codes_of(specs, _loaded)
    _refuse(sorted(label for label, code in found.items() if code != expected[label]))


def check_played_by(expected: PlayedBy, competitor: AgentSpec, field: Iterable[AgentSpec]) -> None:
    """The same for a world of the arena."""
    check_loaded([competitor], {competitor.label: expected.competitor})
    _refuse([] if _together(codes_of(field, _loaded)) == expected.field else ["the field"])


def _refuse(other: list[str]) -> None:
    if other:
        raise OtherCodeError(
            f"this worker has loaded other code of {', '.join(other)} than the command was started with: it was edited "
            "since, or differs on this machine; start the workers and the command again"
        )


def _code(spec: AgentSpec, digests: Callable[[str], _Digests]) -> str:
    code = digests(spec.module) | (digests(_SHIELD) if spec.shielded else {})
    if spec.module not in roster.OWN.values() and any(name.startswith(f"{_OWN}.hrl_xf.") for name in code):
        weights = sorted(BUNDLED.glob("*.safetensors"))  # it may be one of ours by another name
        code |= {f"weights/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in weights}
    whole = json.dumps([spec.identity(), code], sort_keys=True, default=str)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def module_files(module: str) -> dict[str, Path]:
    """The files of a module's code, by name."""
    top = module.partition(".")[0]
    if top in _BY_VERSION:
        return {}
    root, own_root = root_of(top), root_of(_OWN)
    installed = bool({"site-packages", "dist-packages"} & set(root.parts))
    found: dict[str, Path] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        first = name.partition(".")[0]
        if name in found or name == _KNOWS_NO_AGENTS or name.startswith(f"{_KNOWS_NO_AGENTS}."):
            continue
        if first != _OWN and installed and first != top:
            continue
        path = source_of(own_root if first == _OWN else root, name)
        if path is not None:
            found[name] = path
            todo += _imported(name, path)
    if module in found and found[module].name == "__init__.py":
        found |= _folder(module, found[module].parent)
    return found


def root_of(top: str) -> Path:
    """The folder that holds a top-level module or package."""
    spec = importlib.util.find_spec(top)
    if spec is None:
        raise ModuleNotFoundError(f"there is no module {top} here; run the command in the folder that holds it")
    places = list(spec.submodule_search_locations or ())
    return Path(places[0]).parent if places else Path(spec.origin or "").parent


def source_of(root: Path, name: str) -> Path | None:
    """The file of a module below a folder; None if there is none."""
    place = root.joinpath(*name.split("."))
    files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _imported(name: str, path: Path) -> Iterator[str]:
    """What may be modules among the names that a file imports."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError:
        return  # it cannot be imported, so it imports nothing
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            if base:
                yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*")


def _folder(module: str, folder: Path) -> dict[str, Path]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"{module}/{path.relative_to(folder).as_posix()}": path for path in files}
