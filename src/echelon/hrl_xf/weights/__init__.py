"""Which file holds a layer, in a training run or among the bundled weights. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path

BUNDLED = Path(__file__).parent
"""What the agent plays with: layers whose habits were tried out for whole worlds."""
PLAYED = BUNDLED / "played"
"""The layers that they started from, improved by PPO."""
CLONED = BUNDLED / "cloned"
"""The clones of an expert that those started from."""
STEMS: dict[str, tuple[str, ...]] = {
    "l2": ("l2_evolved", "l2_ppo", "l2_bc"),
    "l3": ("l3_evolved", "l3_ppo", "l3_awr", "l3_bc"),
    "l4": ("l4_ppo", "l4_distill"),
}
"""What the files of a training run are called, the better one first."""
CRITIC = "critic"
"""The same for the critic, which no agent needs in play."""


def layer_in(folder: Path, layer: str) -> Path:
    """The file of a layer in a folder."""
    for stem in STEMS[layer]:
        if (path := folder / f"{stem}.safetensors").exists():
            return path
    wanted = " or ".join(f"{stem}.safetensors" for stem in STEMS[layer])
    raise FileNotFoundError(f"{folder} has no {wanted}; train {layer} there, or choose {layer}=heuristic")
