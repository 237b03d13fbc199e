"""AOE's result files as jobs write them."""
