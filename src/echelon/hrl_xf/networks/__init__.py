"""What is trained: L2, L3 and L4 as torch networks, the critic of days, and their files. `layers` plays them."""
