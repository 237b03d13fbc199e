"""Names of a func that a primitive can be tried with: what `Primitive.sample` draws from."""
from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from aoec.ir.func.evaluate import block_reads
from aoec.ir.func.tir import Func, Loop, blocks, walk
from aoec.ir.index import Expr, Int
from aoec.ir.rewrite import holes

MISSING = "none"  # where a func has no such name: the primitive refuses it
FIELDS = {"loop": "loop", "outer": "loop", "inner": "loop", "at": "loop", "block": "block", "buffer": "local"}  # field -> what it names


class Names:
    """A block of a func, the loops around it and a buffer that it touches; one time in five a loop and a buffer from anywhere."""

    def __init__(self, func: Func, random: Random) -> None:
        self.func, self.random = func, random
        self.chosen, above = random.choice(blocks(func.body))
        self.block = self.chosen.name
        self.loops = [n.var for n, _ in walk(func.body) if isinstance(n, Loop)] or [MISSING]
        self.around = [x.var for x in above] or self.loops
        self.elsewhere = [v for v in self.loops if v not in self.around] or self.loops
        reads = [r.buffer for r in block_reads(self.chosen)] or [self.chosen.target.buffer]
        fits = random.randrange(5) > 0
        self.loop = random.choice(self.around if fits else self.loops)
        self.read = random.choice(reads if fits else [b.name for b in func.buffers])
        self.local = random.choice([b.name for b in func.locals] or [self.chosen.target.buffer])

    def new(self, stem: str) -> str:
        """Return a name that nothing in the func has."""
        taken = {*self.loops, *(b.name for b in self.func.buffers), *(b.name for b, _ in blocks(self.func.body)), *holes(self.func)}
        return next(name for name in (f"{stem}{at}" for at in range(len(taken) + 1)) if name not in taken)

    def some(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return some of the names, in any order."""
        return tuple(self.random.sample(list(names), self.random.randint(1, min(4, len(names)))))

    def value(self, field: str, kind: Any) -> Any:
        """Return a value of a primitive's field, by its name and type."""
        if kind is Expr:
            return Int(self.random.randint(1, 4))
        name = getattr(self, FIELDS[field]) if field in FIELDS else self.new(field)
        return name if kind is str else (name,)
