"""`echelon hrl evolve`: improve trained layers by trying habits out."""

from __future__ import annotations

from echelon.hrl_xf.evolve.run import evolve
from echelon.hrl_xf.options.evolve import EvolveOptions


def run(options: EvolveOptions) -> int:
    """The command."""
    evolve(options)
    return 0
