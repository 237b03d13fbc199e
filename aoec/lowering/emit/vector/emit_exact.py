"""Other instructions in place of one that the chip has not, or not exactly, as data: an instruction -> the steps that give the same.

Reciprocals of the chip are estimates, of which the pages of Reciprocal and Rsqrt allow errors of 1/1000 (fp16) and 1/10000 (fp32). So 1 is
divided by the number, or by its root, on every machine. All others stand in for what a machine lacks. Each of them gives the bits that the
instruction would give, for all numbers (tests/lowering/test_exact.py).
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from aoec.base.errors import UnsupportedError
from aoec.ir.index import DTYPES, Expr, Float, Int, Var, ceildiv, eq, le, minimum, normalise, select
from aoec.ir.program import For, Instr, Item, Ref
from aoec.lowering.emit.emit_runs import lanes_of, operand_names
from aoec.lowering.emit.tile import Emitter, Piece, dtype_size, instr

Step = tuple[str | float, ...]  # (what is written, the instruction, its sources, its number)
AT_ONCE = 32  # repeats whose intermediate results lie in UB at one time: 8 KB of each in fp32
ONES = "ones"  # a block of ones, the same for all blocks


@dataclass(frozen=True)
class Way:
    """Steps on `dst`, `src`, the results between them with their dtypes, and ONES. `dst` is written by the last step alone, where there
    are results between."""

    steps: tuple[Step, ...]
    between: dict[str, str] = field(default_factory=dict)


_LARGE = float(2**23)  # from here on every number of fp32 is a whole one
_HUGE = float(2**127)  # twice this makes 1 or more of the smallest number of fp32
# a: the magnitude; c: from it to the nearest whole number, ties to even, which the sum with 2**23 rounds to
_NEAREST: tuple[Step, ...] = (("a", "vabs", "src"), ("b", "vmins", "a", _LARGE), ("c", "vadds", "b", _LARGE), ("c", "vadds", "c", -_LARGE),
                              ("c", "vsub", "c", "b"), ("a", "vadd", "a", "c"))
# b: the sign; below 0.5 a number of that sign, since what it is a factor of is 0
_SIGN: tuple[Step, ...] = (("b", "vmuls", "src", 2.0), ("b", "vmins", "b", 1.0), ("b", "vmaxs", "b", -1.0))


def _down(sign: float) -> tuple[Step, ...]:
    """Return steps that leave in `a` the whole number below the number times `sign`, and in `c` the 1 that is still to be taken from it."""
    return (*_NEAREST, ("b", "vmuls", "src", sign * _HUGE), ("b", "vmuls", "b", _HUGE), ("b", "vmins", "b", 1.0), ("b", "vmaxs", "b", -1.0),
            ("a", "vmul", "a", "b"), ("c", "vmul", "c", "b"), ("c", "vadds", "c", 0.0), ("c", "vmuls", "c", _HUGE),
            ("c", "vmuls", "c", _HUGE), ("c", "vmaxs", "c", 0.0), ("c", "vmins", "c", 1.0))


_THREE = {name: "fp32" for name in "abc"}
_MOST = float(2**31 - 128)  # the largest number of fp32 below 2**31, whose last seven bits are 0
EVERYWHERE: dict[str, Way] = {
    "vrec": Way((("dst", "vdiv", ONES, "src"),)),
    "vrsqrt": Way((("dst", "vsqrt", "src"), ("dst", "vdiv", ONES, "dst"))),
}
WITHOUT: dict[str, Way] = {  # by the instruction, of casts with the dtypes of dst and src
    "vrint": Way((*_NEAREST, *_SIGN, ("dst", "vmul", "a", "b")), _THREE),
    "vtrunc": Way((*_NEAREST, ("c", "vmuls", "c", float(2**24)), ("c", "vmaxs", "c", 0.0), ("c", "vmins", "c", 1.0),
                   ("a", "vsub", "a", "c"), *_SIGN, ("dst", "vmul", "a", "b")), _THREE),
    "vfloor": Way((*_down(1.0), ("dst", "vsub", "a", "c")), _THREE),
    "vceil": Way((*_down(-1.0), ("a", "vsub", "a", "c"), ("dst", "vmuls", "a", -1.0)), _THREE),
    # the low word of an int64; what is 2**31 or more has its last seven bits from `half`, which is 127 there
    "vconv int32 fp32": Way((("a", "vmins", "src", _MOST), ("a", "vmaxs", "a", -float(2**31)), ("long", "vconv", "a"),
                             ("a", "vadds", "src", -_MOST), ("a", "vmaxs", "a", 0.0), ("a", "vmins", "a", 128.0),
                             ("a", "vmuls", "a", 127 / 128), ("half", "vconv", "a"), ("low", "vconv", "long"), ("bits", "vconv", "half"),
                             ("dst", "vor", "low", "bits")),
                            {"a": "fp32", "long": "int64", "half": "fp16", "low": "int32", "bits": "int32"}),
    "vconv fp16 int32": Way((("a", "vconv", "src"), ("dst", "vconv", "a")), {"a": "fp32"}),  # what fp32 rounds is infinite in fp16
}

_WORDS = frozenset(form.split()[0] for form in WITHOUT) | {"vshls", "vshrs"}  # whose forms machines may lack


def with_others(em: Emitter, pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces with instructions replaced where another way is known, and the machine lacks the instruction or it is an
    estimate."""
    out = []
    for p in pieces:
        made = _Pieces(em)
        items = made.items(p.items)
        out.append(replace(p, items=(*made.fills, *items)) if made.scratch else p)
    return out


class _Pieces:
    """One piece while its instructions are replaced. All of them share the results between steps."""

    def __init__(self, em: Emitter) -> None:
        self.em = em
        self.scratch: dict[tuple[str, str], str] = {}
        self.fills: list[Item] = []

    def items(self, items: Sequence[Item]) -> list[Item]:
        out: list[Item] = []
        for item in items:
            if isinstance(item, For):
                out.append(replace(item, body=tuple(self.items(item.body))))
            elif isinstance(item, Instr) and (way := way_of(self.em, item)) is not None:
                out += self.steps(item, way)
            else:
                out.append(item)
        return out

    def between(self, name: str, dtype: str, elements: int) -> str:
        """Return the buffer of a result between steps. For ONES it is a block of ones that is filled before the piece."""
        if (name, dtype) not in self.scratch:
            made = self.scratch[name, dtype] = self.em.add_scratch(dtype, elements)
            if name == ONES:
                self.fills.append(instr("vdup", dst=self.em.ref(made, Int(0)), scalar=Float(1.0), lanes=elements, repeat=1, dst_blk=1,
                                        dst_rep=8))
        return self.scratch[name, dtype]

    def steps(self, item: Instr, way: Way) -> list[Item]:
        """Return the steps in place of an instruction. Where there are results between them, they are done for as many repeats at a time
        as there is room for."""
        lanes, repeat = item["lanes"], item["repeat"]
        assert not isinstance(lanes, Ref) and not isinstance(repeat, Ref)
        if not way.between or isinstance(repeat, Int) and repeat.value <= AT_ONCE:
            return [i for s in way.steps for i in self.step(item, way, s, Int(0), lanes, repeat)]
        v = self.em.fresh("part")
        parts, done = normalise(ceildiv(repeat, AT_ONCE)), Var(v) * AT_ONCE
        last = normalise(select(eq(Var(v), parts - 1), lanes, self.most(item)))
        count = normalise(minimum(AT_ONCE, repeat - done))
        return [For(v, parts, tuple(i for s in way.steps for i in self.step(item, way, s, done, last, count)))]

    def most(self, item: Instr) -> int:
        """Return the number of lanes of a whole repeat of an instruction."""
        return lanes_of(max(dtype_size(self.em.buffers[r.buffer]) for _, r in item.fields if isinstance(r, Ref)))

    def step(self, item: Instr, way: Way, step: Step, done: Expr, lanes: Expr, repeat: Expr) -> list[Item]:
        """Return the instructions of one step; two where an element is too wide for all lanes of a repeat."""
        to, word, given = step[0], str(step[1]), step[2:]
        numbers: list[tuple[str, Float]] = [("scalar", Float(g)) for g in given if not isinstance(g, str)]
        sources = [g for g in given if isinstance(g, str)]
        names = operand_names(len(sources))
        each = [self.operand(item, way, str(n), done) for n in (to, *sources)]
        whole = self.most(item)
        part = min(whole, lanes_of(max(dtype_size(self.em.buffers[ref.buffer]) for ref, _, _ in each)))
        out = list[Item]()
        for first in range(0, whole, part):
            here = {n: replace(ref, offset=normalise(ref.offset + blk * first)) for n, (ref, blk, _) in zip(names, each)}
            strides = {f"{n}_blk": blk for n, (_, blk, _) in zip(names, each)} | {f"{n}_rep": rep for n, (_, _, rep) in zip(names, each)}
            ends = le(lanes, first) if first else Int(0)  # whether the last repeat has nothing for this part
            left = lanes if part == whole else select(ends, part, minimum(part, lanes - first))
            out.append(instr(word, **here, **dict(numbers), lanes=normalise(left), repeat=normalise(repeat - ends), **strides))
        return out

    def operand(self, item: Instr, way: Way, name: str, done: Expr) -> tuple[Ref, Expr, Expr]:
        """Return (an operand of a step from repeat `done` on, its stride in blocks, its stride from repeat to repeat)."""
        fields = dict(item.fields)
        if name in ("dst", "src"):
            ref, blk, rep = fields[name], fields[f"{name}_blk"], fields[f"{name}_rep"]
            assert isinstance(ref, Ref) and not isinstance(blk, Ref) and not isinstance(rep, Ref)
            block = 32 // dtype_size(self.em.buffers[ref.buffer])
            return replace(ref, offset=normalise(ref.offset + done * rep * block)), blk, rep
        if name == ONES:
            dst = fields["dst"]
            assert isinstance(dst, Ref)
            made = self.em.buffers[dst.buffer]
            return self.em.ref(self.between(ONES, made.dtype, 32 // dtype_size(made)), Int(0)), Int(0), Int(0)
        lanes, dtype = self.most(item), way.between[name]
        return self.em.ref(self.between(name, dtype, AT_ONCE * lanes), Int(0)), Int(1), Int(lanes * DTYPES[dtype] // 32)


def way_of(em: Emitter, item: Instr) -> Way | None:
    """Return the way of an instruction that is an estimate, or that the machine lacks and of which one is known; None for all others."""
    if item.op in EVERYWHERE:
        return EVERYWHERE[item.op]
    if item.op not in _WORDS:
        return None
    dtypes = [em.buffers[r.buffer].dtype for _, r in item.fields if isinstance(r, Ref)]
    if em.machine.has(item.op, *dtypes):
        return None
    way = WITHOUT.get(item.op) or WITHOUT.get(" ".join([item.op, *dtypes]))
    if way is None:
        said = " ".join([item.op, *dtypes])
        raise UnsupportedError(f"{em.machine.name} has no {said}, and no other instructions are known to do the same")
    return way
