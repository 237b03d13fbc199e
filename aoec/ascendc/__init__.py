"""Ascend C: the source of a kernel from a program, and what its launch needs to know.

One table of calls (calls.toml) says of each instruction its public call by product, and its page. Small files write the functions of a
source by kind. kernel.py writes the source as the program has it: addresses, flags, loops, slots and cores are its own.
"""
