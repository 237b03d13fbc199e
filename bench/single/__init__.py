"""Random models of one operator each, by family: for bench/operators.py."""
