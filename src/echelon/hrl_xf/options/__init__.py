"""The options of the `echelon hrl …` commands: frozen dataclasses that import nothing heavy."""
