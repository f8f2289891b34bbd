"""HRL-XF: the four-layer agent for SCML Standard. Read the modules in the order of the data's way."""
