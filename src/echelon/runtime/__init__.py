"""What every command stands on: executors, seeds, checkpoints, metrics. Knows no reinforcement learning."""
