"""One module for each `echelon hmasd …` command."""
