"""The texts of an export and of a new agent; `filled` puts names in place of @name@."""

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

STARTER_COMMANDS = {
    "test": "python -m unittest @folder@.test_agent",
    "measure": "echelon hrl compete --agent @folder@:@name@ --agent LitaAgentHRL --against PenguinAgent,AS0 "
    "--configs 20 --output-dir arena_runs/@folder@",
    "watch": "echelon hrl play --agent @folder@:@name@",
    "report": "echelon report arena_runs/@folder@ -o @folder@.html",
    "export": "echelon hrl export --agent @folder@:@name@ -o @folder@.zip",
}

STARTER_PACKAGE = '''"""@name@, an agent for the SCML Standard track."""

from .agent import @name@

__all__ = ["@name@"]
'''

STARTER_TEST = '''"""@name@ plays a short world without a failure: python -m unittest @folder@.test_agent"""

import random
import unittest

import numpy as np
from echelon.hrl_xf.lean.world import LeanStdWorld
from scml.std import GreedyStdAgent, SCML2024StdWorld, SyncRandomStdAgent

from @folder@ import @name@


class PlaysTest(unittest.TestCase):
    def test_it_plays_a_world_and_none_of_its_layers_fails(self) -> None:
        random.seed(1)
        np.random.seed(1)
        config = SCML2024StdWorld.generate(
            agent_types=[@name@, GreedyStdAgent, SyncRandomStdAgent] * 4,
            random_agent_types=False,
            n_processes=2,
            n_agents_per_process=6,
            n_steps=10,
        )
        world = LeanStdWorld(**config)
        world.run()
        ours = [a.adapted_object for a in world.agents.values() if isinstance(a.adapted_object, @name@)]
        self.assertGreater(len(ours), 0)
        for agent in ours:  # a layer that fails is replaced by the rules, and logged with its traceback
            self.assertEqual(agent.fallbacks, 0, "a layer failed; the log above says why")
            self.assertEqual(agent.errors, 0, "there was no answer; the log above says why")
        mine = {agent.id for agent in ours}
        signed = [c for c in world.signed_contracts if {c["seller_name"], c["buyer_name"]} & mine]
        self.assertGreater(len(signed), 0, "it has signed nothing")


if __name__ == "__main__":
    unittest.main()
'''

STARTER_README = """# @name@

An agent for the SCML Standard track that begins as `LitaAgentHRL`. What is its own: @part@.
Edit @method@ in `agent.py`, where it says EDIT HERE.

Run the commands in the folder that holds `@folder@`.

## Try it

    python -m unittest @folder@.test_agent

plays a world of ten days. If a method of yours fails, the rules play the rest of that day and the test shows the error.

## Measure it

    echelon hrl compete --agent @folder@:@name@ --agent LitaAgentHRL --against PenguinAgent,AS0 --configs 20 \\
        --output-dir arena_runs/@folder@

puts it, LitaAgentHRL and two champions into the same seats of the same worlds. Look at the paired differences
of `@folder@:@name@`: a star means that a 95 % interval leaves out 0. After an edit the same command plays its worlds
again; more `--configs` make the intervals narrower.

## Look at it

    echelon hrl play --agent @folder@:@name@
    echelon report arena_runs/@folder@ -o @folder@.html

tell one world day by day, and show standings, money lost and single negotiations of the arena on one page.

## Send it

    echelon hrl export --agent @folder@:@name@ -o @folder@.zip

writes a zip file that needs numpy, scml and negmas only, after it has played a world from it. Its README lists the
fields of the league's submission form.
"""
