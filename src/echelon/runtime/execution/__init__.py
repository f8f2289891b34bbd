"""Execution of tasks: executors, worker processes, dask, and lists of tasks with time limits."""
