"""The search of a whole plan: a lattice of launches, L2 between them, the cheapest row, and a bound for all rows."""
