"""Environments as dense arrays over many worlds at once. Start with `vector.py`; make one with `make.make_vector_env`."""
