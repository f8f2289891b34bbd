"""How agents are named on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.hrl_xf.competitors.specs import AgentSpec, SpecError, add, parse_agent, parse_list

HRL = "echelon.hrl_xf.agent"


@pytest.mark.parametrize(
    ("text", "label", "base", "shielded", "params"),
    [
        ("RandomStdAgent", "RandomStdAgent", "scml.std.agents.RandomStdAgent", False, {}),
        ("rnd=RandomStdAgent", "rnd", "scml.std.agents.RandomStdAgent", False, {}),
        ("shielded(RandomStdAgent)", "shielded(RandomStdAgent)", "scml.std.agents.RandomStdAgent", True, {}),
        ("s=shielded(a.b:Cls):x=1", "s", "a.b.Cls", True, {"x": 1}),
        ("a.b:Cls", "a.b:Cls", "a.b.Cls", False, {}),
        ("a.b.Cls", "a.b.Cls", "a.b.Cls", False, {}),
        ("m=a.b:Cls:x=0.5,y=true,z=word,w=7", "m", "a.b.Cls", False, {"x": 0.5, "y": True, "z": "word", "w": 7}),
        ("LitaAgentHRL", "LitaAgentHRL", f"{HRL}.LitaAgentHRL", False, {}),
        ("LitaAgentHRL:l2=heuristic,l3=l1", "LitaAgentHRL:l2=heuristic,l3=l1", f"{HRL}.LitaAgentHRL", False,
         {"l2": "heuristic", "l3": "l1"}),
    ],
)  # fmt: skip
def test_the_grammar(text: str, label: str, base: str, shielded: bool, params: dict[str, object]) -> None:
    spec = parse_agent(text)
    assert (spec.label, spec.base, spec.shielded, dict(spec.params)) == (label, base, shielded, params)


def make_run(folder: Path, *stems: str) -> Path:
    folder.mkdir()
    for stem in stems:
        (folder / f"{stem}.safetensors").write_bytes(stem.encode())
    return folder


def test_a_training_run_gives_its_layers_and_awr_goes_before_cloning(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "l2_bc", "l3_bc", "l4_distill")
    names = {key: Path(value).name for key, value in parse_agent(f"LitaAgentHRL:{run}").params.items()}
    assert names == {
        "l2_model_path": "l2_bc.safetensors",
        "l3_model_path": "l3_bc.safetensors",
        "l4_model_path": "l4_distill.safetensors",
    }
    (run / "l3_awr.safetensors").write_bytes(b"awr")
    assert Path(parse_agent(f"LitaAgentHRL:{run}").params["l3_model_path"]).name == "l3_awr.safetensors"


def test_a_layer_that_is_given_need_not_be_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run", "l2_bc")
    assert parse_agent("LitaAgentHRL:l2=run").params == {"l2": str(tmp_path / "run")}
    params = parse_agent("x=LitaAgentHRL:run=run,l3=l1,l4_model_path=other.safetensors").params
    assert params == {
        "l2_model_path": str(tmp_path / "run" / "l2_bc.safetensors"),
        "l3": "l1",
        "l4_model_path": str(tmp_path / "other.safetensors"),
    }
    with pytest.raises(
        SpecError, match=r"no l3_evolved.safetensors or l3_ppo.safetensors or l3_awr.*l3_bc.*l3=heuristic"
    ):
        parse_agent("LitaAgentHRL:run")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PenguinAgnt", "did you mean PenguinAgent"),
        ("PenguinAgent:runs/x", "only LitaAgentHRL is made from a training run"),
        ("LitaAgentHRL:nowhere", "nowhere is not a folder"),
        ("LitaAgentHRL:l2=heuristic,l3", "'l3' is not key=value"),
        ("a.b", "names a module but no class"),
        ("shielded(PenguinAgent:x=1)", "behind the bracket"),
        ("=PenguinAgent", "unknown agent"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_agent(text)


def test_lists_and_groups() -> None:
    assert [s.label for s in parse_list("top-2025:2, PenguinAgent,AS0", "--against")] == [
        "AS0",
        "XenoSotaAgent",
        "PenguinAgent",
    ]
    assert len(parse_list("top-2025,top-2024,baselines", "--field")) == 14
    with pytest.raises(SpecError, match="how many of the best"):
        parse_list("top-2025:many", "--field")
    with pytest.raises(SpecError, match="a list takes no arguments"):
        parse_list("a.b:Cls:x=1", "--against")


def test_one_label_is_one_agent() -> None:
    found: dict[str, AgentSpec] = {}
    add(found, parse_agent("x=PenguinAgent"))
    add(found, parse_agent("x=PenguinAgent"))
    assert len(found) == 1
    with pytest.raises(SpecError, match="two agents are called 'x'"):
        add(found, parse_agent("x=AS0"))
    add(found, parse_agent("y z=AS0"))
    with pytest.raises(SpecError, match="make one file name"):
        add(found, parse_agent("y?z=AS0"))


def test_other_weights_are_another_identity(tmp_path: Path) -> None:
    weights = tmp_path / "l2.safetensors"
    weights.write_bytes(b"first")
    spec = parse_agent(f"x=LitaAgentHRL:l2_model_path={weights}")
    before = spec.identity()
    assert before == spec.identity()
    weights.write_bytes(b"second")
    assert spec.identity() != before
    bundled = {text: set(parse_agent(text).identity()["files"]) for text in ("LitaAgentHRL", "LitaAgentHRL:l3=l1")}
    assert bundled == {"LitaAgentHRL": {"l2", "l3", "l4"}, "LitaAgentHRL:l3=l1": {"l2", "l4"}}


def test_a_missing_class_is_refused() -> None:
    with pytest.raises(SpecError, match="has no class Nobody"):
        parse_agent("scml.std.agents:Nobody").load()
    with pytest.raises(SpecError, match="no_such_module"):
        parse_agent("no_such_module.x:Nobody").load()
    assert parse_agent("scml.std.agents:RandomStdAgent").load().__name__ == "RandomStdAgent"
