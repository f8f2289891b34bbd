"""Who can sit in a seat: names of agents to classes, ablations, shields, the code and the state of their modules."""
