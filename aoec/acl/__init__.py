"""ACL by ctypes: kernels on a device, in a worker process of its own.

functions.toml and codes.toml are tables: the functions that are called, and the meanings of their codes. structs.py has sizes and numbers
of the ABI. library.py loads the library and calls it. launching.py has the routes of a launch. board.py handles requests to a device.
worker.py is the process that runs board.py. channel.py carries frames between the worker and its parent. device.py is the parent's side,
with process.py (its end of the pipes), lease.py (lock files) and times.py. known_good.py has the kernel of self-tests. The parent never
loads the library. All of it was exercised against a stand-in. It never ran on an NPU.
"""
