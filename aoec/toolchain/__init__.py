"""CANN's compiler: where it is, what it takes, and sources of kernels through it to objects.

find.py looks for the toolkit. routes.toml has the command lines of both compile routes by product, routes.py fills them in. probe.py asks
the compiler which it takes. run.py runs one command with a time limit. build.py builds many sources, each distinct one once, and keeps
what came of it by content. All of it was exercised against a stand-in; it never ran with CANN on an NPU.
"""
