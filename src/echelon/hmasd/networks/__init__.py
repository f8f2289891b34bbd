"""The four networks of HMASD and their shapes."""
