"""Worlds of the multi-agent particle environments (`mpe2`), as arrays over many worlds."""
