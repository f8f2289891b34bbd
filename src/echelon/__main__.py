"""`python -m echelon …` is `echelon …`."""

from __future__ import annotations

import sys

from echelon.cli import main

if __name__ == "__main__":
    sys.exit(main())
