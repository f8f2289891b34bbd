"""What every command uses: executors, seeds, checkpoints, metrics. Contains no reinforcement learning."""
