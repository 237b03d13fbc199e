"""The steps of a compile, a file each, in the order of `compile.py`."""
