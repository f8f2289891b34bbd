"""Training and measuring the layers: sources of batches, targets, losses, fitting, evaluation."""
