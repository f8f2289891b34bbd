"""The shared on-policy engine: rollouts, advantages, PPO, the training loop. Knows neither skills nor SCML."""
