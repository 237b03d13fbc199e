"""Ranks of bench/ddp.py: the processes, and the network between them."""
