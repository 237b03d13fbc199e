"""ACL by ctypes: kernels on a device, in a worker process of its own.

functions.toml and codes.toml are tables: what is called, and what its codes mean. structs.py has sizes and numbers of the ABI. library.py
loads the library and calls it, launching.py has the routes of a launch, board.py does what is asked of a device, worker.py is the process
that runs it, channel.py carries frames between it and its parent. device.py is the parent's side, with process.py (its end of the pipes),
lease.py (lock files) and times.py; known_good.py has the kernel of self-tests. The parent never loads the library. All of it was exercised
against a stand-in; it never ran on an NPU.
"""
