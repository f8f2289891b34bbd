"""The layers above L1, learnt or by rule: L2 sets the day's goals, L3 answers, L4 divides attention; their files."""
