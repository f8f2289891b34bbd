"""Third-party PettingZoo environments: one world, a block of worlds, the batched protocol, worker processes."""
