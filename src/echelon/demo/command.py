"""`echelon demo`: collect, dataset, train, compete, hmasd, report; then a table of what was learnt."""

from __future__ import annotations

import logging
import time

from echelon.demo.screen import Screen, only_to_file
from echelon.demo.steps import FULL, QUICK, STEPS, Demo
from echelon.demo.summary import table
from echelon.hrl_xf.collect.folder import EXIT_SOME_FAILED
from echelon.options import DemoOptions
from echelon.runtime.progress import minutes

log = logging.getLogger(__name__)

INTERRUPTED = 130


def run(options: DemoOptions) -> int:
    """The command: the steps in order, each on one line; worlds that failed are counted and do not stop it."""
    demo, screen, started = Demo(options, QUICK if options.quick else FULL), Screen(), time.monotonic()
    duration = "about a minute" if options.quick else "about three minutes"
    screen.say(f"{len(STEPS)} steps, {duration} on two cores. All details: {demo.folder('log.txt')}")
    screen.say("Stop it at any time with Ctrl-C; the same command resumes.")
    screen.say()
    with only_to_file(demo.folder("log.txt")):
        code = steps(demo, screen)
        if code not in (0, EXIT_SOME_FAILED):
            return code
        screen.say()
        rows = table(demo)
        screen.table(rows)
        for row in rows:
            log.info("%s: %s; %s", *row)
    screen.say()
    screen.say(f"Done in {minutes(time.monotonic() - started)}. Open {demo.folder('report.html')} in a browser.")
    screen.say("Next: `echelon hrl collect --help` (more worlds for a better agent)")
    screen.say("      `echelon hmasd train --env alice_and_bob` (the task solved, minutes)")
    return code


def steps(demo: Demo, screen: Screen) -> int:
    """All steps; the worst exit code."""
    worst = 0
    for number, step in enumerate(STEPS, start=1):
        log.info("step %d of %d: %s", number, len(STEPS), step.name)
        try:
            with screen.step(f"{number}/{len(STEPS)} {step.name:<8}") as result:
                code = step.do(demo)
                result.append(step.made(demo))
                if code == EXIT_SOME_FAILED:
                    result.append("some worlds failed")
        except KeyboardInterrupt:
            screen.say(f"stopped in step {number} of {len(STEPS)}; completed work is kept, the same command resumes")
            return INTERRUPTED
        if code not in (0, EXIT_SOME_FAILED):
            return code
        worst = max(worst, code)
    return worst
