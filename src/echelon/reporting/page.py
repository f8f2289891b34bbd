"""The page itself: a template, styles and scripts of our own, and the data, all in one file that needs no network."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

MOST_BYTES = 5_000_000
_STYLES = ("style.css", "charts.css")
_SCRIPTS = (
    "dom.js", "scales.js", "bars.js", "lines.js", "tables.js", "arena.js", "thread.js", "negotiations.js", "curves.js",
    "selftest.js", "main.js",
)  # fmt: skip
_WRITTEN = ("tables", "facts", "verdicts", "lines", "skills")
"""Parts that the template writes into the HTML; the scripts do not read them."""


@cache
def _asset(name: str) -> str:
    return (files("echelon.reporting") / "assets" / name).read_text(encoding="utf-8")


def script_safe(value: Any) -> str:
    """JSON for a script element: nothing in it can end the element or begin a comment."""
    text = msgspec.json.encode(value).decode()
    for unsafe in "<>&\u2028\u2029":
        text = text.replace(unsafe, f"\\u{ord(unsafe):04x}")
    return text


def render(title: str, runs: list[dict[str, Any]]) -> bytes:
    """The page of these runs."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    shown = [{k: v for k, v in run.items() if k not in _WRITTEN} for run in runs]
    text = environment.from_string(_asset("page.html.jinja")).render(
        title=title,
        runs=runs,
        version=version("echelon"),
        style=Markup("\n".join(map(_asset, _STYLES))),
        script=Markup("\n".join(map(_asset, _SCRIPTS))),
        data=Markup(script_safe({"runs": shown})),
    )
    page = text.encode()
    if len(page) > MOST_BYTES:
        raise ValueError(
            f"the page would have {len(page) / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}; give fewer runs at once"
        )
    return page
