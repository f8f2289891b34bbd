"""Online training: the agent improves by playing (spec §11).

The way of a round: `worlds` plays whole worlds in workers, where `exploring` draws from the layers and `wishes` keeps
what was drawn; `moments` and `returns` give each moment its value (`critic`) and advantage; `rollout` makes one
`RolloutBatch` of each level; `policies` scores them for the engine's PPO; `trainer` is the loop around it, and
`validation` plays fixed worlds to tell whether the result is better than the start.
"""
