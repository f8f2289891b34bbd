"""The agent's day: which layers it plays with, what it decides, its diary, and its narration for people."""
