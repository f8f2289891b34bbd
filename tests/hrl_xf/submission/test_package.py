"""An exported agent: what is in it, what is refused, and the same play without Echelon."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from echelon.hrl_xf.commands import export
from echelon.hrl_xf.competitors.specs import parse_agent
from echelon.hrl_xf.options.export import ExportOptions
from echelon.hrl_xf.submission import package, texts
from echelon.hrl_xf.submission.package import Entry, entry_of
from echelon.hrl_xf.submission.sources import ExportError
from echelon.hrl_xf.weights import BUNDLED, layer_in
from tests.hrl_xf.test_bare_play import ABSENT, bare_world

LICENSE = Path(__file__).parents[3] / "LICENSE"


@pytest.fixture(scope="module")
def entry() -> Entry:
    return entry_of(parse_agent("LitaAgentHRL"))


def test_it_holds_the_agent_its_weights_and_what_the_league_asks_for(entry: Entry) -> None:
    inside = {name.removeprefix(f"{entry.package}/") for name in entry.files}
    assert {"agent.py", "__init__.py", "echelon/hrl_xf/agent.py"} <= inside
    assert {"README.md", "requirements.txt", "LICENSE", "try_it.py"} <= inside
    assert entry.files["LICENSE"] == LICENSE.read_bytes()
    weights = {Path(name).name: content for name, content in entry.files.items() if name.endswith(".safetensors")}
    assert weights == {layer_in(BUNDLED, x).name: layer_in(BUNDLED, x).read_bytes() for x in ("l2", "l3", "l4")}
    needed = entry.files["requirements.txt"].decode().splitlines()
    assert [line.partition("==")[0] for line in needed] == ["negmas", "numpy", "scml"]
    readme = entry.files["README.md"].decode()
    assert entry.class_name in readme
    assert "@" not in readme, "all names are filled in"
    assert not [name for name, text in entry.files.items() if name.endswith(".py") and b"from echelon" in text]


def test_the_zip_is_small_readable_and_the_same_for_the_same_files(entry: Entry) -> None:
    zipped = entry.zipped()
    assert len(zipped) < 5_000_000
    assert entry_of(parse_agent("LitaAgentHRL")).zipped() == zipped
    with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
        assert {info.filename for info in archive.infolist()} == set(entry.files)
        assert all(info.external_attr >> 16 == 0o644 for info in archive.infolist())


def test_other_weights_are_another_package(entry: Entry, tmp_path: Path) -> None:
    """The name holds a digest of all that is inside, so two versions can play in one world."""
    for layer in ("l2", "l3", "l4"):
        (tmp_path / layer_in(BUNDLED, layer).name).write_bytes(layer_in(BUNDLED, layer).read_bytes())
    assert entry_of(parse_agent("LitaAgentHRL"), tmp_path).package == entry.package
    path = layer_in(tmp_path, "l2")
    content = bytearray(path.read_bytes())
    content[-4:] = b"\0\0\0\0"
    path.write_bytes(content)
    other = entry_of(parse_agent("LitaAgentHRL"), tmp_path)
    assert other.package != entry.package
    assert other.package.startswith("lita_agent_hrl_")
    named = entry_of(parse_agent(f"LitaAgentHRL:l2={path}"))
    assert named.package == other.package, "a file that an argument names is bundled too"


def test_layers_by_rule_need_no_file(entry: Entry) -> None:
    made = entry_of(parse_agent("LitaAgentHRL:l2=heuristic,l3=l1,mode=sample"))
    assert [Path(n).name for n in made.files if n.endswith(".safetensors")] == [layer_in(BUNDLED, "l4").name]
    text = made.files[f"{made.package}/agent.py"].decode()
    assert "ARGUMENTS = {'l2': 'heuristic', 'l3': 'l1', 'mode': 'sample'}" in text


def test_what_cannot_be_exported_is_refused(entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExportError, match="shielded agent cannot be exported"):
        entry_of(parse_agent("shielded(LitaAgentHRL)"))
    (tmp_path / "table.json").write_text("{}")
    with pytest.raises(ExportError, match="table name files of this machine; put them into the folder of the agent"):
        entry_of(replace(parse_agent("LitaAgentHRL"), params={"table": str(tmp_path / "table.json")}))
    monkeypatch.setattr(package, "MOST_BYTES", 1000)
    with pytest.raises(ExportError, match=r"at most 1,000 are allowed; the largest file is .*l3_\w+\.safetensors"):
        entry.zipped()
    with pytest.raises(ExportError, match="PenguinAgent is not derived from LitaAgentHRL; see `echelon hrl new-agent`"):
        export.run(ExportOptions(output=tmp_path / "submission.zip", agent="PenguinAgent"))
    with pytest.raises(ValueError, match=r"must be a \.zip file"):
        ExportOptions(output=tmp_path / "submission.tar")
    with pytest.raises(ValueError, match="is not a folder; give the --output-dir"):
        ExportOptions(layers=tmp_path / "nothing")


@pytest.mark.timeout(600)
def test_an_export_that_does_not_play_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "AGENT", "raise RuntimeError('broken on purpose')\n")
    output = tmp_path / "submission.zip"
    with pytest.raises(ExportError, match=r"does not play from its export: [\s\S]*broken on purpose"):
        export.run(ExportOptions(output=output))
    assert not output.exists()


@pytest.mark.timeout(600)
def test_an_export_plays_to_the_last_digit_as_the_package_does(tmp_path: Path) -> None:
    """Unpacked inside another package, as the league does, where neither Echelon nor what it needs is there."""
    output = tmp_path / "out" / "submission.zip"
    assert export.run(ExportOptions(output=output, skip_check=True)) == 0
    team = tmp_path / "league" / "team_7"
    with zipfile.ZipFile(output) as archive:
        archive.extractall(team)
    (tmp_path / "league" / "__init__.py").touch()
    (team / "__init__.py").touch()
    (name,) = (path.name for path in team.iterdir() if path.is_dir())
    exported = bare_world(f"league.team_7.{name}.agent:LitaAgentHRL", "echelon", *ABSENT, path=tmp_path)
    assert all(module.startswith("league") for module in exported["modules"])
    package_agent = bare_world("echelon.hrl_xf.agent:LitaAgentHRL")
    for world in (exported, package_agent):
        del world["modules"]
    assert exported == package_agent
    assert exported["signed"] > 5
    assert exported["failures"] == 0
