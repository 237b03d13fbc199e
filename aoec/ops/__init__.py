"""The operator dictionary: each word declared once, in index notation, beside an independent NumPy reference.

The folder is the registry: every family module here adds its words.
"""
from aoec.ops.gradient import gradient
from aoec.ops.meanings import loops, macs, meaning, shape
from aoec.ops.own import word
from aoec.ops.registry import OPS, Op, get
from aoec.ops.run import evaluate

__all__ = ["OPS", "Op", "evaluate", "get", "gradient", "loops", "macs", "meaning", "shape", "word"]
