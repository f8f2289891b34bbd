"""Online training: the agent improves by playing (spec §11).

The way of a round: `worlds` plays whole worlds in workers, where `exploring` draws from the layers and `wishes` keeps
what was drawn; `returns` gives each moment its advantage over its value (`critic`); `rollout` makes one
`RolloutBatch` of each level; `policies` scores them for the engine's PPO; `trainer` is the loop around it, and
`judge` and `validation` play fixed worlds to tell whether the result is better than the start.

What lasts for a whole world is learnt in `hrl_xf.evolve`.
"""
