"""Competitors in the same seats of the same worlds: plan, world, seat, standings, the league's own format."""
