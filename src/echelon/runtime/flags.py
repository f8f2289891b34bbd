"""Types of options on the command line."""

from __future__ import annotations

import tyro

Flag = tyro.conf.FlagCreatePairsOff[bool]
