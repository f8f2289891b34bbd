"""The fast simulator: scml's worlds, with the same contracts. All knowledge of negmas' insides is here."""
