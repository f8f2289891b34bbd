"""An agent as files that need nothing of Echelon: its modules, its weights, and what the league asks for.

PACKAGE/                 named after the agent and a digest of its files, so that no two can be confused
  agent.py               the class that is entered
  echelon/               Echelon's modules that play needs, and the weights
  …                      the agent's own modules and data files
requirements.txt  README.md  LICENSE  try_it.py
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from echelon import __version__
from echelon.hrl_xf.competitors.specs import AgentSpec
from echelon.hrl_xf.layers.weight_files import read_layer
from echelon.hrl_xf.options.new_agent import snake
from echelon.hrl_xf.submission import texts
from echelon.hrl_xf.submission.sources import OWN, ExportError, Sources, relative_source, sources_of
from echelon.hrl_xf.weights import BUNDLED, STEMS, layer_in

MOST_BYTES = 5_000_000
DATA = (".safetensors", ".npz", ".npy", ".json")
"""Data files beside an agent's own modules that are taken along."""
PLAIN = frozenset({"numpy", "scml", "negmas"})
"""What an agent may import without a question."""
_WEIGHTS = "echelon/hrl_xf/weights"


@dataclass(frozen=True)
class Entry:
    """An exported agent."""

    package: str
    """name of its folder"""
    agent: str
    """name of its class"""
    files: Mapping[str, bytes]
    """of the whole export, by path"""
    outside: frozenset[str]
    """modules of others that it imports"""

    @property
    def class_name(self) -> str:
        """The agent's class as a dotted path."""
        return f"{self.package}.agent.{self.agent}"

    def zipped(self) -> bytes:
        """All files as a zip file; the same files are the same bytes."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(self.files.items()):
                info = zipfile.ZipInfo(name)
                info.external_attr = 0o644 << 16  # readable where it is unpacked
                archive.writestr(info, content, zipfile.ZIP_DEFLATED)
        found = buffer.getvalue()
        if len(found) > MOST_BYTES:
            largest = max(self.files, key=lambda name: len(self.files[name]))
            raise ExportError(
                f"the export has {len(found):,} bytes, at most {MOST_BYTES:,} are allowed; the largest file is "
                f"{largest} ({len(self.files[largest]):,} bytes)"
            )
        return found


def entry_of(spec: AgentSpec, layers: Path | None = None) -> Entry:
    """The export of an agent; `layers` is a folder whose weights take the place of the bundled ones."""
    if spec.shielded:
        raise ExportError(f"{spec.label}: a shielded agent cannot be exported; derive your agent from LitaAgentHRL")
    sources = sources_of(spec.module)
    params, weights = _weights(spec, layers)
    inside = {
        _path(name, path): relative_source(name, path, sources.tops).encode() for name, path in sources.files.items()
    }
    inside |= {f"{_WEIGHTS}/{name}": content for name, content in weights.items()}
    inside |= _data_files(spec.module, sources)
    inside["agent.py"] = _agent(spec, params).encode()
    inside["__init__.py"] = texts.PACKAGE.format(agent=spec.name).encode()
    package = f"{snake(spec.name)}_{_digest(inside)}"
    requirements = "".join(f"{line}\n" for line in _requirements(sources.outside))
    names = {"package": package, "agent": spec.name, "version": __version__, "requirements": requirements}
    files = {f"{package}/{name}": content for name, content in inside.items()}
    files["requirements.txt"] = requirements.encode()
    files["README.md"] = texts.filled(texts.README, names).encode()
    files["LICENSE"] = texts.LICENSE.encode()
    files["try_it.py"] = texts.filled(texts.TRY_IT, names).encode()
    return Entry(package, spec.name, files, sources.outside)


def _weights(spec: AgentSpec, layers: Path | None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The arguments that are left when files that they name are bundled, and the bundled files."""
    params, files = dict(spec.params), {}
    for layer in STEMS:
        path = params.pop(f"{layer}_model_path", None) or params.get(layer, "bundled")
        if path in ("heuristic", "l1"):
            continue
        params.pop(layer, None)
        where = layer_in(layers or BUNDLED, layer) if path == "bundled" else Path(path)
        where = layer_in(where, layer) if where.is_dir() else where
        read_layer(where)  # refuses what is not one
        name = where.name if where.stem in STEMS[layer] else f"{STEMS[layer][0]}.safetensors"
        files[name] = where.read_bytes()
    named = [key for key, value in params.items() if isinstance(value, str) and Path(value).exists()]
    if named:
        raise ExportError(
            f"{spec.label}: {', '.join(named)} name files of this machine; put them into the folder of the agent and "
            "let its code find them beside itself"
        )
    return params, files


def _data_files(module: str, sources: Sources) -> dict[str, bytes]:
    """Data files of the agent's own package."""
    top = module.partition(".")[0]
    if top == OWN or top not in sources.files or sources.files[top].name != "__init__.py":
        return {}
    folder = sources.files[top].parent
    paths = (path for path in sorted(folder.rglob("*")) if path.suffix in DATA and path.is_file())
    return {f"{top}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in paths}


def _path(name: str, path: Path) -> str:
    place = name.replace(".", "/")
    return f"{place}/__init__.py" if path.name == "__init__.py" else f"{place}.py"


def _agent(spec: AgentSpec, params: Mapping[str, Any]) -> str:
    return texts.filled(
        texts.AGENT, {"agent": spec.name, "module": spec.module, "params": repr(dict(params)), "version": __version__}
    )


def _requirements(outside: frozenset[str]) -> list[str]:
    """The distributions of the modules that are imported, with their versions here."""
    known = _distributions()
    missing = sorted(name for name in outside if name not in known)
    if missing:
        raise ExportError(f"the agent imports {', '.join(missing)}, which is not installed here")
    return sorted({f"{known[name][0]}=={version(known[name][0])}" for name in outside | PLAIN})


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Which distributions a top-level module comes from; it reads the lists of files of all that are installed."""
    return packages_distributions()


def _digest(files: Mapping[str, bytes]) -> str:
    each = (hashlib.sha256(name.encode() + b"\0" + content).digest() for name, content in sorted(files.items()))
    return hashlib.sha256(b"".join(each)).hexdigest()[:8]
