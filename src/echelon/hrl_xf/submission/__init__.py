"""Entering the league: an agent as a self-contained package, and the start of an agent of one's own."""
