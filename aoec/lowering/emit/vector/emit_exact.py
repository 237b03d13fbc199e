"""Reciprocals that are exact to a rounding: what the chip has for them are estimates, of which the pages of Reciprocal and Rsqrt allow
errors of 1/1000 (fp16) and 1/10000 (fp32). So 1 is divided by the number, or by its root."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aoec.ir.index import Float, Int
from aoec.ir.program import For, Instr, Item, Ref
from aoec.lowering.emit.tile import Emitter, Piece, dtype_size, instr

ESTIMATES = ("vrec", "vrsqrt")


def divide_instead(em: Emitter, pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces without estimates; a block of ones is made before each piece that had some."""
    out = []
    for p in pieces:
        found = {em.buffers[i["dst"].buffer].dtype for i in _instructions(p.items) if i.op in ESTIMATES}  # type: ignore[union-attr]
        ones = {dtype: em.add_scratch(dtype, 32 // size) for dtype, size in ((d, 2 if d == "fp16" else 4) for d in sorted(found))}
        fills = [instr("vdup", dst=em.ref(name, Int(0)), scalar=Float(1.0), lanes=32 // dtype_size(em.buffers[name]), repeat=1, dst_blk=1,
                       dst_rep=8) for name in ones.values()]
        out.append(replace(p, items=(*fills, *_exact(em, p.items, ones))) if ones else p)
    return out


def _exact(em: Emitter, items: Sequence[Item], ones: dict[str, str]) -> list[Item]:
    out: list[Item] = []
    for item in items:
        if isinstance(item, For):
            out.append(replace(item, body=tuple(_exact(em, item.body, ones))))
        elif isinstance(item, Instr) and item.op in ESTIMATES:
            out += _quotient(em, item, ones)
        else:
            out.append(item)
    return out


def _quotient(em: Emitter, item: Instr, ones: dict[str, str]) -> list[Item]:
    """The instructions for an estimate: the root where it is of one, and the division, in which every block of ones is the same."""
    f = dict(item.fields)
    dst = f["dst"]
    assert isinstance(dst, Ref)
    root: list[Item] = [Instr("vsqrt", item.fields)] if item.op == "vrsqrt" else []
    of = "dst" if root else "src"
    one = em.ref(ones[em.buffers[dst.buffer].dtype], Int(0))
    return [*root, instr("vdiv", dst=dst, src0=one, src1=f[of], lanes=f["lanes"], repeat=f["repeat"], dst_blk=f["dst_blk"], src0_blk=0,
                         src1_blk=f[f"{of}_blk"], dst_rep=f["dst_rep"], src0_rep=0, src1_rep=f[f"{of}_rep"])]


def _instructions(items: Sequence[Item]) -> list[Instr]:
    return [x for i in items for x in (_instructions(i.body) if isinstance(i, For) else [i] if isinstance(i, Instr) else [])]
