"""The day and all pure functions of it: the log's schema, days as arrays, features, L1's limits, goals. Numpy only."""
