"""Habits: choices that last for a whole world, learnt by playing (`echelon hrl evolve`).

`screening` tries each habit of L3 at a large weight and takes what pays, one after another; `evolution` refines it in
pairs of worlds with opposite deviations; `run` is the run's directory, metrics and checkpoints. Worlds, validation and
the layers of the start are those of `online`.
"""
