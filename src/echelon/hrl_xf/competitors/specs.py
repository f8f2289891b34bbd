"""How a command line names agents: `[LABEL=]AGENT[:ARGUMENTS]`.

    AGENT      a roster name | LitaAgentHRL | package.module:Class | shielded(AGENT); the module may be a file of the
               working directory: myagent.py holds myagent:MyAgent
    ARGUMENTS  a training run's folder, or key=value,key=value… for the constructor; for LitaAgentHRL the key `run`
               names such a folder for the layers that no other key names

    PenguinAgent    LitaAgentHRL:runs/first    L1=LitaAgentHRL:l2=heuristic,l3=l1,l4=heuristic
    no-l4=LitaAgentHRL:run=runs/first,l4=heuristic    shielded(PenguinAgent)    mine.agents:Trader:greed=0.2

Lists (`--against`, `--field`) hold such names without arguments, and groups: top-2026, top-2025, top-2024, finalists,
baselines; top-2025:3 is the best three. Nothing here imports scml: wrong names are refused at once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echelon.hrl_xf.competitors import roster
from echelon.hrl_xf.weights import BUNDLED, STEMS, layer_in

HRL_AGENT = "LitaAgentHRL"
_LABEL = re.compile(r"([^=:(),/]+)=(.*)", re.DOTALL)
_SHIELDED = re.compile(r"shielded\((.*)\)(?::(.*))?", re.DOTALL)
_GROUPS = {
    "top-2026": roster.TOP_2026,
    "top-2025": roster.TOP_2025,
    "top-2024": roster.TOP_2024,
    "finalists": roster.FINALISTS,
    "baselines": roster.BASELINES,
}
_NO_FILES = ("bundled", "heuristic", "l1")


class SpecError(ValueError):
    """An agent that cannot be understood, and how to write it."""


@dataclass(frozen=True)
class AgentSpec:
    """One competitor: which class, made how."""

    label: str
    """how tables call it"""
    module: str
    name: str
    shielded: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    """constructor arguments, JSON values"""

    def __post_init__(self) -> None:
        if not self.label.strip() or self.slug.strip("-") == "":
            raise SpecError(f"the label {self.label!r} is empty; write e.g. mine={self.name}")

    @property
    def slug(self) -> str:
        """The label as a part of file names."""
        return re.sub(r"[^\w.+@-]+", "-", self.label).strip("-")

    @property
    def base(self) -> str:
        """The class without a shield, as a dotted path."""
        return f"{self.module}.{self.name}"

    def load(self) -> type[Any]:
        """The agent's class, shielded if so asked; imports what it needs."""
        try:
            loaded: type[Any] = vars(importlib.import_module(self.module))[self.name]
        except (ImportError, KeyError) as error:
            raise SpecError(
                f"{self.label}: {self.module} has no class {self.name} ({error}); check name and installation"
            ) from error
        if not self.shielded:
            return loaded
        from echelon.hrl_xf.competitors.shield import shielded  # imports negmas

        return shielded(loaded)

    def class_path(self) -> str:
        """The full name of the class that plays, shield included; imports what it needs."""
        cls = self.load()
        return f"{cls.__module__}.{cls.__qualname__}"

    @property
    def agent_params(self) -> dict[str, Any]:
        """The constructor's arguments as a world of scml takes them."""
        return {"controller_params": dict(self.params)} if self.params else {}

    def identity(self) -> dict[str, Any]:
        """What decides how it plays, with a digest of each file its arguments name: one label, one identity."""
        files = {key: Path(value) for key, value in self.params.items() if isinstance(value, str)}
        if self.name == HRL_AGENT:
            files |= _bundled(self.params)
        digests = {
            key: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for key, path in files.items() if path.is_file()
        }
        return {"agent": self.base, "shielded": self.shielded, "params": dict(self.params), "files": digests}


def parse_agent(text: str) -> AgentSpec:
    """One agent from its text; paths in it become absolute, since workers may have another working directory."""
    labelled = _LABEL.fullmatch(text.strip())
    label, rest = (labelled[1].strip(), labelled[2].strip()) if labelled else (text.strip(), text.strip())
    shield = _SHIELDED.fullmatch(rest)
    if shield:
        module, name, arguments = _split(shield[1].strip())
        if arguments:
            raise SpecError(f"{text!r}: arguments go behind the bracket: shielded({name}):{arguments}")
        arguments = shield[2] or ""
    else:
        module, name, arguments = _split(rest)
    return AgentSpec(label, module, name, shield is not None, _params(name, arguments, text))


def parse_list(text: str, what: str) -> list[AgentSpec]:
    """Agents of a comma-separated list of names and groups, each once, in order."""
    found: dict[str, AgentSpec] = {}
    for item in (part.strip() for part in text.split(",")):
        if not item:
            continue
        group, _, number = item.partition(":")
        if group in _GROUPS:
            most = len(_GROUPS[group]) if not number else int(number) if number.isdecimal() else 0
            if most < 1:
                raise SpecError(f"{what} {item}: how many of the best? e.g. {group}:3")
            specs = [parse_agent(name) for name in list(_GROUPS[group])[:most]]
        else:
            specs = [parse_agent(item)]
        for spec in specs:
            if spec.params:
                raise SpecError(f"{what} {item}: a list takes no arguments; give this agent with --agent {item}")
            add(found, spec)
    return list(found.values())


def add(found: dict[str, AgentSpec], spec: AgentSpec) -> None:
    """Collect agents by label: the same one twice is one, two under one label is an error."""
    known = found.setdefault(spec.label, spec)
    if known != spec:
        raise SpecError(f"two agents are called {spec.label!r}; give one of them another label: other={spec.name}…")
    twin = next((s for s in found.values() if s.slug == spec.slug and s.label != spec.label), None)
    if twin is not None:
        raise SpecError(f"the labels {twin.label!r} and {spec.label!r} make one file name; give one another label=")


def _split(text: str) -> tuple[str, str, str]:
    """(module, class, arguments) of `AGENT[:ARGUMENTS]`."""
    head, _, rest = text.partition(":")
    if head in roster.ROSTER:
        return roster.ROSTER[head], head, rest
    if "." not in head and not _is_module(head):
        if rest[:1].isupper() and rest.partition(":")[0].isidentifier():  # meant as module:Class
            raise SpecError(f"{text!r}: there is no {head}.py in {Path.cwd()} and no installed module {head}")
        roster.check_names([head])  # raises, with the names that are near
    module, _, last = head.rpartition(".")
    if module and last[:1].isupper():  # package.module.Class
        return module, last, rest
    name, _, arguments = rest.partition(":")
    if not name.isidentifier():
        raise SpecError(f"{text!r} names a module but no class; write package.module:Class")
    return head, name, arguments


def _is_module(name: str) -> bool:
    """Whether a top-level module of that name can be imported; it is not imported yet."""
    return name.isidentifier() and importlib.util.find_spec(name) is not None


def _params(agent: str, arguments: str, text: str) -> dict[str, Any]:
    if not arguments:
        return {}
    if "=" not in arguments:
        arguments = f"run={arguments}"
    params: dict[str, Any] = {}
    for part in arguments.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key.strip().isidentifier():
            raise SpecError(f"{text!r}: {part!r} is not key=value")
        params[key.strip()] = _value(value.strip())
    if "run" in params and agent == HRL_AGENT:
        params = _layers_of(Path(str(params.pop("run"))), params) | params
    elif "run" in params:
        raise SpecError(
            f"{text!r}: only {HRL_AGENT} is made from a training run; write key=value arguments for {agent}"
        )
    files = {k for k, v in params.items() if k.endswith("_path") or (k in STEMS and v not in _NO_FILES)}
    return {k: str(Path(v).absolute()) if k in files else v for k, v in params.items()}


def _layers_of(run: Path, given: Mapping[str, Any]) -> dict[str, str]:
    """Weights of a training run for the layers that are not given otherwise."""
    if not run.is_dir():
        raise SpecError(f"{run} is not a folder; give the --output-dir of `echelon hrl train`")
    others = [layer for layer in STEMS if layer not in given and f"{layer}_model_path" not in given]
    try:
        return {f"{layer}_model_path": str(layer_in(run, layer)) for layer in others}
    except FileNotFoundError as error:
        raise SpecError(str(error)) from error


def _bundled(params: Mapping[str, Any]) -> dict[str, Path]:
    """The bundled weights that these arguments leave in use."""
    return {
        layer: layer_in(BUNDLED, layer)
        for layer in STEMS
        if params.get(layer, "bundled") == "bundled" and f"{layer}_model_path" not in params
    }


def _value(text: str) -> Any:
    """Numbers and true/false as such, all else as text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
