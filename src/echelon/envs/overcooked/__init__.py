"""Overcooked: two cooks in one kitchen, as dense arrays.

`layouts` (the five kitchens) and `rules` (what an interaction does, as tables) -> `views` (what a cook sees) ->
`env` (B kitchens at once, and one as a PettingZoo ParallelEnv) -> `render`.
"""
