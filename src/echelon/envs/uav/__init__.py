"""UAV base stations: the environment, its options, its radio, its views and its pictures."""
