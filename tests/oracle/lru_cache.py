"""A plain simulated cache: blocks, least recently used goes first, fed with what a small program touches over all cores in turn.

It knows nothing of footprints and windows. All cores of a stream run in step, one transfer each in turn; what is written stays in
the cache until it is evicted, which sends it to HBM. `launches` runs the program again on what it left.
"""
from __future__ import annotations

from collections import Counter, OrderedDict

from aoec.ir.index import DTYPES, evaluate
from aoec.ir.program import For, Instr
from aoec.target.isa.instructions import INSTRUCTIONS

BLOCK = 512


class Cache:
    def __init__(self, size_bytes):
        self.blocks, self.size = OrderedDict(), size_bytes // BLOCK
        self.hbm_bytes = Counter()  # by tensor

    def touch(self, tensor, block, writes):
        key = (tensor, block)
        dirty = self.blocks.pop(key, None)
        if dirty is None and not writes:
            self.hbm_bytes[tensor] += BLOCK
        self.blocks[key] = bool(dirty) or writes
        if len(self.blocks) > self.size:
            (name, _), was_written = self.blocks.popitem(last=False)
            self.hbm_bytes[name] += BLOCK * was_written


def hbm_bytes(program, size_bytes, launches=1):
    """HBM bytes by tensor of the last launch of a filled program of one stream."""
    cache = Cache(size_bytes)
    for _ in range(launches):
        cache.hbm_bytes.clear()
        run(program, cache)
    return cache.hbm_bytes


def run(program, cache):
    (stream,) = program.streams
    coordinates = [{}]
    for axis, extent in stream.grid:
        coordinates = [{**c, axis: i} for c in coordinates for i in range(int(evaluate(extent, {})))]
    names = {t.name: t.dtype for t in program.tensors}
    steps = [list(transfers(stream.body, env, names)) for env in coordinates]
    for turn in range(max(map(len, steps))):
        for core in steps:
            for tensor, block, writes in core[turn] if turn < len(core) else ():
                cache.touch(tensor, block, writes)


def transfers(items, env, dtypes):
    """The blocks that each transfer of a core touches, in order."""
    for item in items:
        if isinstance(item, For):
            for i in range(int(evaluate(item.trips, env))):
                yield from transfers(item.body, {**env, item.var: i}, dtypes)
        elif isinstance(item, Instr):
            for o in INSTRUCTIONS[item.op].operands:
                if "GM" in o.scopes:
                    yield blocks(item, item[o.name], o.writes, env, dtypes)


def blocks(item, ref, writes, env, dtypes):
    size = DTYPES[dtypes[ref.buffer]]
    start = int(evaluate(ref.offset, env)) * size
    fields = {name: int(evaluate(e, env)) for name, e in item.fields if name in ("rows", "cols", "src_stride", "m", "n", "dst_stride")}
    rows, cols = fields.get("rows", fields.get("m")), fields.get("cols", fields.get("n"))
    stride = fields.get("src_stride", fields.get("dst_stride"))
    starts = [start + r * stride * size for r in range(rows)]
    found = {b for at in starts for b in range(at // BLOCK, (at + cols * size - 1) // BLOCK + 1)}
    return [(ref.buffer, b, writes) for b in sorted(found)]
