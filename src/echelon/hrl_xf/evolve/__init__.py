"""Habits: choices that last for a whole world, learnt by playing (`echelon hrl evolve`).

`numbers` are what evolves, `knowledge` what is known of their worth, `evolution` tries them out and says which stand;
`run` is the run's directory, metrics and checkpoints. Worlds, validation and the layers of the start are those of
`online`.
"""
