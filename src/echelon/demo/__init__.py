"""`echelon demo`: both systems end to end, small: its steps, its screen, and the table at its end."""
