"""The version of the model: which sources a modelled time depends on. Records of another version are stale."""
from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib import resources

# packages whose text decides a modelled time: what is emitted, and how it is timed
PARTS = ("aoec.ir", "aoec.primitives", "aoec.lowering", "aoec.simulate", "aoec.target", "aoec.kernels")


@lru_cache(maxsize=1)
def model_version() -> str:
    """The first 16 hex digits of the hash over the Python sources of emission, primitives and timing."""
    h = hashlib.sha256()
    for package in PARTS:
        for f in sorted(resources.files(package).iterdir(), key=lambda f: f.name):
            if f.name.endswith(".py"):
                h.update(f"{package}/{f.name}\n".encode() + f.read_bytes())
    return h.hexdigest()[:16]
