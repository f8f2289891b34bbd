"""Echelon: hierarchical agents on one engine (HRL-XF for SCML, HMASD for skill discovery)."""

__version__ = "0.1.0"
