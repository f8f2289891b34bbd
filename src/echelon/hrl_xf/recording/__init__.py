"""A world becomes logs, and logs become columns."""
