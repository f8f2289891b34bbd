"""The modules that `echelon hrl new-agent` begins an agent with; MyAgent stands for the name that is given."""
