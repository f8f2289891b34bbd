"""Tournaments that are recorded: their plan, one world, the folder that fills with worlds, the index of collections."""
