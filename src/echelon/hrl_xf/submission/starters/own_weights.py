"""MyAgent: LitaAgentHRL with weights of its own, those in the folder `weights` beside this file.

Replace the files there by those of a training run (`echelon hrl train`, `echelon hrl online`); a layer whose file you
delete is the bundled one. Edit `MyAgent.own_layers` to choose otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from echelon.hrl_xf.agent import LitaAgentHRL
from echelon.hrl_xf.weights import STEMS

WEIGHTS = Path(__file__).parent / "weights"


class MyAgent(LitaAgentHRL):
    """LitaAgentHRL with own weights; all arguments of LitaAgentHRL are taken."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**self.own_layers(), **kwargs})

    def own_layers(self) -> dict[str, str]:
        """The file of each layer ("l2" the day's goal, "l3" the answers, "l4" the order of negotiations)."""
        chosen: dict[str, str] = {}

        # EDIT HERE. An example: of each layer the file that comes first in STEMS; "l4": "heuristic" would be a rule.
        for layer, stems in STEMS.items():
            files = [path for stem in stems if (path := WEIGHTS / f"{stem}.safetensors").exists()]
            if files:
                chosen[layer] = str(files[0])

        return chosen
