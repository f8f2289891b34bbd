"""What plays, in numpy: L2 sets the day's goals, L3 answers, L4 divides attention; learnt (`networks`) or by rule."""
