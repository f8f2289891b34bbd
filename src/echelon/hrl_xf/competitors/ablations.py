"""Ablations: LitaAgentHRL with layer after layer taken away, and what L1 alone does for another agent.

    label                   l2         l3         l4         what it tells
    L1                      heuristic  l1         heuristic  L1's own answers
    rules                   heuristic  heuristic  heuristic  a rule that trades towards a goal, with a goal made by rule
    L1+L2                   learnt     heuristic  heuristic  less `rules`: what the learnt goal is worth
    L1+L2+L3                learnt     learnt     heuristic  less `L1+L2`: what the learnt answers are worth
    all                     learnt     learnt     learnt     less `L1+L2+L3`: what the learnt α is worth
    scheme F                learnt     direct     learnt     less `all`: what residuals to L1's baseline are worth
    PenguinAgent                                             the expert
    shielded(PenguinAgent)                                   less `PenguinAgent`: what L1's limits are worth

L1's own answers do not look at a goal, so L2 on top of them could not matter: the goal is put to use by the heuristic
executor, and `rules` is there to tell the executor's share from L2's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from echelon.hrl_xf.competitors.specs import HRL_AGENT, AgentSpec, SpecError, parse_agent
from echelon.hrl_xf.layers.l3_play import PlayExecutor
from echelon.hrl_xf.layers.weight_files import layer_path, load_player

EXPERT = "PenguinAgent"
JUDGED = ("all", "L1+L2+L3", "L1+L2", f"shielded({EXPERT})")
"""Whose differences to all others are shown."""


def ablations(given: Sequence[AgentSpec], direct_l3: Path | None) -> list[AgentSpec]:
    """The preset for the LitaAgentHRL among `given`, or for the bundled one; then the others of `given`.

    `direct_l3` is an L3 of scheme F; without it scheme F is left out.
    """
    whole = [spec for spec in given if spec.name == HRL_AGENT and not spec.shielded]
    if len(whole) > 1:
        raise SpecError(
            f"--ablations takes one {HRL_AGENT} apart, not {len(whole)} ({', '.join(spec.label for spec in whole)}); "
            "give one with --agent, or none for the bundled one"
        )
    base = replace(whole[0] if whole else parse_agent(HRL_AGENT), label="all")
    ladder = [
        _with(base, "L1", l2="heuristic", l3="l1", l4="heuristic"),
        _with(base, "rules", l2="heuristic", l3="heuristic", l4="heuristic"),
        _with(base, "L1+L2", l3="heuristic", l4="heuristic"),
        _with(base, "L1+L2+L3", l4="heuristic"),
        base,
    ]
    if direct_l3 is not None:
        ladder.append(_with(base, "scheme F", l3_model_path=_direct(direct_l3)))
    others = [spec for spec in given if spec not in whole]
    return [*ladder, parse_agent(EXPERT), parse_agent(f"shielded({EXPERT})"), *others]


def _with(base: AgentSpec, label: str, **layers: str) -> AgentSpec:
    """The agent with other layers: for those named, what it said about them before is forgotten."""
    named = {key.removesuffix("_model_path") for key in layers}
    others = {key: value for key, value in base.params.items() if key.removesuffix("_model_path") not in named}
    return replace(base, label=label, params=others | layers)


def _direct(path: Path) -> str:
    """The file of an L3 in direct mode, as an absolute path."""
    mode = load_player(PlayExecutor, path).mode
    if mode != "direct":
        raise SpecError(
            f"--direct-l3 {path} is an L3 of mode {mode!r}; scheme F needs one of `echelon hrl train --l3-mode direct`"
        )
    return str(layer_path(path).absolute())
