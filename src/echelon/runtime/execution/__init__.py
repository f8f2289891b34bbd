"""Where tasks run: executors, worker processes, dask, and many tasks with time limits."""
