"""Logs become training data: tables, shards on disk, a cache, samples, splits, goals."""
