"""The texts of an export; `filled` puts names in place of @name@."""

from __future__ import annotations

from collections.abc import Mapping


def filled(text: str, names: Mapping[str, str]) -> str:
    """The text with @name@ replaced by what each name stands for."""
    for name, value in names.items():
        text = text.replace(f"@{name}@", value)
    return text


PACKAGE = '''"""The package of {agent}; `agent.py` holds the class that is entered."""

from .agent import MAIN_AGENT

__all__ = ["MAIN_AGENT"]
'''

AGENT = '''"""The agent that is entered: @agent@, exported by Echelon @version@."""

from .@module@ import @agent@ as _Agent

ARGUMENTS = @params@


class @agent@(_Agent):
    __doc__ = _Agent.__doc__

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **{**ARGUMENTS, **kwargs})


MAIN_AGENT = @agent@
'''

TRY_IT = '''"""Play one short world of the Standard track with @agent@: python try_it.py [days]"""

import logging
import random
import sys

import numpy as np
from scml.std import GreedyStdAgent, SCML2024StdWorld, SyncRandomStdAgent

from @package@.agent import @agent@

logging.basicConfig()
random.seed(1)
np.random.seed(1)
days = int(sys.argv[1]) if len(sys.argv) > 1 else 10
config = SCML2024StdWorld.generate(
    agent_types=[@agent@, GreedyStdAgent, SyncRandomStdAgent], n_processes=3, n_agents_per_process=4, n_steps=days
)
world = SCML2024StdWorld(**config, no_logs=True, compact=True)
world.run()
for name, score in sorted(world.scores().items(), key=lambda item: -item[1]):
    print(f"{score:7.3f}  {name:8}  {type(world.agents[name].adapted_object).__name__}")
ours = [a.adapted_object for a in world.agents.values() if isinstance(a.adapted_object, @agent@)]
failed = sum(agent.fallbacks + agent.errors for agent in ours)
print(f"{len(ours)} seats were played by @agent@; a layer failed {failed} times")
sys.exit(1 if failed or not ours else 0)
'''

README = """# @agent@: entry for the SCML Standard track

Everything the agent needs is in the folder `@package@`; its modules import each other relatively, so the folder
may be put into any other package. It was written by `echelon hrl export` (Echelon @version@); Echelon's files in it are
under the licence in `LICENSE`.

## Try it

In an empty environment of Python 3.11 or later:

    pip install -r requirements.txt
    python try_it.py

plays one short world against agents of scml and prints the scores. It must say "a layer failed 0 times".

## What the submission form asks for

The fields are those that scml-agents publishes of the entries of 2026; the form may have changed since.

| field | value |
| --- | --- |
| track | SCML Standard |
| file | this zip file |
| class name | `@package@.agent.@agent@` |
| agent name | FILL IN |
| version | FILL IN, e.g. 1.0.0 |
| team | FILL IN |
| author | FILL IN |
| members: name, institution, country | FILL IN |
| tags | e.g. Supervised Learning, Reinforcement Learning, Heuristic / Rule-based |
| uses an LLM | no, if you added none |
| description | FILL IN: what the agent does, in one paragraph |
| report | FILL IN: a PDF, uploaded separately |
| requirements | see below |

## Requirements

The versions that the agent was exported with; the league's own versions of scml and negmas replace them.

    @requirements@"""

LICENSE = """MIT License

Copyright (c) 2026 The Echelon developers

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""
