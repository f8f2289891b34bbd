"""One module for each `echelon hrl …` command."""
