"""Environments as dense arrays over many worlds. Start with `vector.py`; `make.make_vector_env` makes one by name."""
