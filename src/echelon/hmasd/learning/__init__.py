"""One round of HMASD: collecting it, its intrinsic rewards, the update, and the names it is logged under."""
