"""Funcs of cube groups: matrix multiplication and convolution, each `mm` block with its FIXPIPE epilogue `out`.

Convolution gets an explicit `im2col` block (what load3d does on the way from L1 to L0A), so that m = ho x wo is never fused
and split. A 1x1 convolution of stride 1 sees its image as one row of h*w pixels.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from aoec.base.errors import UnsupportedError
from aoec.ir.func.meaning import Statement
from aoec.ir.func.scaling import Scaled
from aoec.ir.func.tir import Block, Buffer, Func, Node
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import Cast, Expr, Float, Int, Read, Var, maximum, normalise, reads, rebuild, rename_reads, substitute
from aoec.lowering.lower.access import NO_MOVES, Moves, around_product
from aoec.lowering.lower.lower_attention import lower_attention
from aoec.lowering.lower.physical import buffer_of, extents, guard_read, nest, physical_indices, split_channel
from aoec.lowering.lower.vector.lower_operations import single_operations
from aoec.lowering.lower.work import Work
from aoec.ops.meanings import meaning
from aoec.ops.own import word
from aoec.ops.words.layout import FRACTAL_ROWS, stored_shape


def lower_cube(name: str, nodes: list[OpNode], tensors: dict[str, Tensor]) -> Func:
    """Return the func of a cube operator with optional bias, relu behind it, and further elementwise operators on its result and on what
    lies as it does (a residual). Moves in front of it and behind it are places at which it reads and writes."""
    moves, nodes = around_product(nodes, tensors)
    main, relu = nodes[0], len(nodes) > 1 and nodes[1].op == "relu"
    scaled = nodes[-1] if nodes[-1].op == "requantise" else None
    tail = nodes[1 + relu:len(nodes) - (scaled is not None)]
    out = tensors[nodes[-1].outputs[0]]
    way = WayOut(relu, tensors[scaled.inputs[1]] if scaled else None, float(scaled.attribute("zero", 0.0)) if scaled else 0.0)  # type: ignore[arg-type]
    if main.op == "conv2d_packed":
        return lower_conv(name, main, tensors, out, way, Tail(tail, nodes[relu].outputs[0]))
    if main.op == "interpolate":
        return lower_interpolate(name, main, tensors, out, way)
    if main.op == "matmul":
        return lower_matmul(name, main, tensors, out, way, Tail(tail, nodes[relu].outputs[0]), moves)
    if tail:
        raise UnsupportedError(f"group {name}: {main.op} has a group of its own, without {', '.join(n.op for n in tail)}")
    if main.op == "attention":
        return lower_attention(name, main, tensors, moves)
    raise UnsupportedError(f"group {name}: {main.op} has no cube lowering")


SUMS = {"int8": "int32"}  # dtype of operands -> of their sums of products; fp32 of all others


@dataclass(frozen=True)
class WayOut:
    """What becomes of sums on their way out: relu, a scale for each column, a zero point."""

    relu: bool
    scale: Tensor | None
    zero: float

    def of(self, read: Expr, column: Expr, sums: str, dtype: str) -> Expr:
        """Return what is stored of a sum of a column: cast, after relu; or scaled, rounded and cast, which limits it to int8."""
        e = maximum(read, Float(0.0)) if self.relu else read
        if self.scale is not None:
            return Scaled(e, Read("S", (column,)), self.zero).value()
        return e if dtype == sums else Cast(dtype, e)

    def buffers(self, columns: int) -> list[Buffer]:
        """Return the scales, where there are any."""
        return [Buffer("S", "fp32", (Int(columns),))] if self.scale is not None else []


@dataclass(frozen=True)
class Tail:
    """Elementwise operators behind a result, and the tensor that is this result."""

    nodes: list[OpNode]
    given: str

    @property
    def others(self) -> list[str]:
        """Return tensors that they read beside it, in order of first use."""
        made = {self.given, *(o for n in self.nodes for o in n.outputs)}
        return list(dict.fromkeys(i for n in self.nodes for i in n.inputs if i and i not in made))


def lower_matmul(name: str, node: OpNode, tensors: dict[str, Tensor], out: Tensor, way: WayOut, tail: Tail,
                 moves: Moves = NO_MOVES) -> Func:
    """C[..., m, n] += A[..., m, k] * B[..., k, n]; leading dimensions of A fold into m where B has none of its own, and an operand that
    is broadcast along one is read without it.

    Leading dimensions fold where rows follow rows, which those of NZ matrices do not. With trans_a the left operand is A[..., k, m],
    with trans_b the right one B[..., n, k], as they lie in GM. The tail's operations lie between, in locals. An operand is read where it
    lies before the `moves` in front of the product, and the result written where it lies behind those that follow.
    """
    ts = [tensors[i] for i in node.inputs if i]
    a, b = ts[0], ts[1]
    turn_a, turn_b = (bool(node.attribute(f"trans_{x}", 0)) for x in "ab")
    m, k = a.shape[:-3:-1] if turn_a else a.shape[-2:]
    n = b.shape[-2] if turn_b else b.shape[-1]
    lead = out.shape[:-2]
    folds = prod(b.shape[:-2]) == 1 and prod(a.shape[:-2]) == prod(lead) and not turn_a and "NZ" not in (a.layout, out.layout)
    folds = folds and (prod(lead) == 1 or not (moves.is_moved(a.name) or moves.after))
    batched = [] if folds else [i for i, d in enumerate(lead) if d > 1 or not moves]
    batch = tuple(lead[i] for i in batched)
    rows = m * prod(lead) if folds else m
    loops = [(f"b{i}", d) for i, d in enumerate(batch)] + [("m", rows), ("n", n), ("k", k)]
    outer = tuple(Var(v) for v, _ in loops[:-3])
    mv, nv, kv = Var("m"), Var("n"), Var("k")
    extents = dict(loops)

    def operand(t: Tensor, name: str, matrix: tuple[Expr, Expr], shape: tuple[int, ...]) -> tuple[Buffer, Read]:
        own = [at for at, i in enumerate(batched) if i in _own_axes(t, lead)]
        if not moves.is_moved(t.name):
            return buffer_of(t, name, (*(batch[at] for at in own), *shape)), Read(name, (*(outer[at] for at in own), *matrix))
        every = {batched[at]: outer[at] for at in own}
        first = len(lead) + 2 - len(t.shape)
        return moves.read(t, name, (*(every.get(i, Int(0)) for i in range(first, len(lead))), *matrix), extents, matrix)
    A, a_read = operand(a, "A", (kv, mv) if turn_a else (mv, kv), (k, rows) if turn_a else (rows, k))
    B, b_read = operand(b, "B", (nv, kv) if turn_b else (kv, nv), b.shape[-2:])
    Y, y_place = buffer_of(out, "Y", (*batch, rows, n)), Read("Y", (*outer, mv, nv))
    if moves.after:
        places = dict(zip(batched, outer))
        Y, y_place = moves.write(out, "Y", (*(places.get(i, Int(0)) for i in range(len(lead))), mv, nv), extents, (mv, nv))
    sums = SUMS.get(a.dtype, "fp32")
    C = Buffer("C", sums, (*(Int(d) for d in batch), Int(rows), Int(n)))
    bias = [bias_buffer(ts[2], n)] if len(ts) > 2 else []
    mm = Block("mm", Read("C", (*outer, mv, nv)), "+=", a_read * b_read, Read("bias", (nv,)) if bias else None)
    every = loops[:-1]
    o = _prefix_loops("out", every)
    place = (*outer, mv, nv)
    given = way.of(_at(Read("C", place), o), o["n"], sums, out.dtype)
    free = sums == "fp32" and rows >= FRACTAL_ROWS and (not tail.others or out.layout == "NZ")  # fewer rows are worked on as rows
    between, last, locals_ = activation(tail, given, every, tensors, free)
    stored = [buffer_of(tensors[t], f"R{i}", (*batch, rows, n)) for i, t in enumerate(tail.others)]
    brought = [bring(b, f"r{i}", every, place) for i, b in enumerate(stored)]
    done = Block("out", _at(y_place, o), "=", _at(last, o) if isinstance(last, Read) else last)
    return Func(name, (A, B, *bias, *way.buffers(n), *stored), (Y,), (C, *locals_),
                (*brought, nest(loops, mm), *between, nest([(f"out_{v}", d) for v, d in every], done)))


def lower_interpolate(name: str, node: OpNode, tensors: dict[str, Tensor], out: Tensor, way: WayOut) -> Func:
    """Interpolation of an image in NC1HWC0 along its rows or columns: the product of its weights with the planes as they lie."""
    x, w = (tensors[i] for i in node.inputs)
    down = node.attribute("axis") == 2
    product = replace(node, op="matmul", inputs=(w.name, x.name), attributes=())
    func = lower_matmul(name, product, {w.name: w, x.name: _planes(x, down)}, _planes(out, down), way, Tail([], out.name))
    return replace(func, inputs=func.inputs[::-1])  # the image first, as the word has it


def _planes(t: Tensor, down: bool) -> Tensor:
    """Return an image in NC1HWC0 as matrices: a plane is one of h rows and w * C0 columns, all rows of all planes are one of w rows in
    columns of C0."""
    n, c1, h, w, c0 = stored_shape(t)
    return replace(t, shape=(n * c1, h, w * c0), layout="ND") if down else replace(t, shape=(w, n * c1 * h * c0))


def _own_axes(t: Tensor, lead: tuple[int, ...]) -> list[int]:
    """Return the leading dimensions of the result that an operand has too; it is broadcast along the others."""
    first = len(lead) + 2 - len(t.shape)
    return [axis for axis in range(first, len(lead)) if t.shape[axis - first] == lead[axis]]


def bias_buffer(t: Tensor, n: int) -> Buffer:
    """Return the bias in the dtype of sums; what is stored is padded to whole fractals."""
    return Buffer("bias", t.dtype, (Int(max(t.shape[0], n)),))


def lower_conv(name: str, node: OpNode, tensors: dict[str, Tensor], out: Tensor, way: WayOut, tail: Tail) -> Func:
    """im2col, mm and out over NC1HWC0 tensors and a packed ZN weight; the tail's operations lie between, in locals. What else they read
    is brought first, each by a block of its own."""
    ts = [tensors[i] for i in node.inputs if i]
    x, w = ts[0], ts[1]
    said = meaning(node.op, [t.shape for t in ts], dict(node.attributes))
    (statement,) = said.statements
    ranges = extents(said)
    image = next(r for r in reads(statement.value) if r.buffer == said.inputs[0].name)
    co = statement.target.indices[1]
    turned = bool(node.attribute("trans_b", 0))
    blocks = [v for v in ("g",) if v in ranges]
    shape, y_shape = list(stored_shape(x)), list(stored_shape(out))
    indices = list(physical_indices(x, image.indices))
    point = shape[2:4] == y_shape[2:4] and all(i == Var(v) for i, v in zip(_spatial(indices, node), ("ho", "wo")))
    if point:
        shape[2:4], y_shape[2:4] = [1, shape[2] * shape[3]], [1, y_shape[2] * y_shape[3]]
        indices[2:4] = [Var("ho"), Var("wo")]
        ranges.update(ho=1, wo=shape[3])
    if isinstance(co, Var):
        ranges[co.name] = y_shape[1] * y_shape[4]  # padding channels too: their weights and bias are zero
    loops = [(v, ranges[v]) for v in ("n", *blocks, "ho", "wo")]
    column = co.name if isinstance(co, Var) else "o"
    spatial = tuple(Var(v) for v, _ in loops)
    k = ranges["k"]
    cols = Buffer("cols", x.dtype, (*(Int(d) for _, d in loops), Int(k)))
    sums = SUMS.get(x.dtype, "fp32")
    C = Buffer("C", sums, (*(Int(d) for _, d in loops), Int(ranges[column])))
    padding = Float(float(node.attribute("pad_value", 0)))  # type: ignore[arg-type]
    gather = guard_read(Read("X", tuple(indices)), tuple(shape), ranges, padding)
    im = _prefix_loops("im", loops + [("k", k)])
    im2col = Block("im2col", _at(Read("cols", (*spatial, Var("k"))), im), "=", substitute(gather, im))
    w_row = Var("k") if not blocks else Var("g") * w.shape[1] + Var("k")
    weight = Read("W", (co, Var("k")) if turned else (w_row, Var(column)))
    bias = [bias_buffer(ts[2], ranges[column])] if len(ts) > 2 else []
    mm = Block("mm", Read("C", (*spatial, Var(column))), "+=", Read("cols", (*spatial, Var("k"))) * weight,
               Read("bias", (co,)) if bias else None)
    every = [*loops, (column, ranges[column])]
    o = _prefix_loops("out", every)
    c1, c0 = split_channel(co, y_shape[-1])
    target = _at(Read("Y", (Var("n"), c1, Var("ho"), Var("wo"), c0)), o)
    given = way.of(_at(Read("C", (*spatial, Var(column))), o), substitute(co, o), sums, out.dtype)
    between, last, locals_ = activation(tail, given, every, tensors, sums == "fp32")
    stored = [buffer_of(tensors[t], f"R{i}", tuple(y_shape)) for i, t in enumerate(tail.others)]
    brought = [bring(b, f"r{i}", every, (Var("n"), c1, Var("ho"), Var("wo"), c0)) for i, b in enumerate(stored)]
    done = nest([(f"out_{v}", d) for v, d in every], Block("out", target, "=", _at(last, o) if isinstance(last, Read) else last))
    rows = w.shape[-2] * (w.shape[0] if blocks and not turned else 1)
    W = buffer_of(w, "W") if turned else Buffer("W", w.dtype, (Int(rows), Int(_columns(w))), "GM", "ZN")
    gathered = nest([(f"im_{v}", d) for v, d in loops + [("k", k)]], im2col)
    inputs = (buffer_of(x, "X", tuple(shape)), W, *bias, *way.buffers(y_shape[1] * y_shape[-1]), *stored)
    return Func(name, inputs, (buffer_of(out, "Y", tuple(y_shape)),), (cols, C, *locals_),
                (*brought, gathered, nest([*every, ("k", k)], mm), *between, done))


def bring(stored: Buffer, local: str, loops: list[tuple[str, int]], place: tuple[Expr, ...]) -> Node:
    """Return the block that brings a tensor as large as the result from its `place` in GM."""
    own = _prefix_loops(local, loops)
    return nest([(f"{local}_{v}", d) for v, d in loops],
                Block(f"{local}_in", Read(local, tuple(own.values())), "=", _at(Read(stored.name, place), own)))


def activation(tail: Tail, given: Expr, loops: list[tuple[str, int]], tensors: dict[str, Tensor], free: bool,
               ) -> tuple[list[Node], Expr, list[Buffer]]:
    """Return (blocks between, what is stored, locals): the elementwise operators behind a result, one vector operation a block. Locals r0,
    r1, ... hold what they read beside it. `free`: where it pays to keep a result unrounded, it may be."""
    if not tail.nodes:
        return [], given, []
    point = tuple(Var(v) for v, _ in loops)
    shape = tuple(d for _, d in loops)
    held = {tail.given: Read("E", point)} | {t: Read(f"r{i}", point) for i, t in enumerate(tail.others)}
    held |= {n.outputs[0]: Read(f"E{i}", point) for i, n in enumerate(tail.nodes)}
    work = Work([], dict(loops), {r.buffer: shape for r in held.values()}, {r.buffer: tensors[t].dtype for t, r in held.items()})
    for node in tail.nodes:
        said = meaning(word(node), [tensors[x].shape for x in node.inputs], dict(node.attributes))
        read = {a.name: held[i] for a, i in zip(said.inputs, node.inputs, strict=True)}
        work.statements.append(Statement(held[node.outputs[0]], "=", _each(said.statements[0].value, read), None))
    work = single_operations(work, [])
    if free and isinstance(given, Cast):
        given, work = drop_rounding(given, held[tail.given], work)
    blocks: list[Node] = []
    for target, value in [(held[tail.given], given), *((s.target, s.value) for s in work.statements)]:
        stem = target.buffer.replace(".", "_")
        own = _prefix_loops(stem, loops)
        value = substitute(value, {f"out_{v}": e for v, e in own.items()} | own)
        block = Block(f"{stem}_", Read(stem, tuple(own.values())), "=", rename_reads(value, {n: n.replace(".", "_") for n in work.shapes}))
        blocks.append(nest([(f"{stem}_{v}", d) for v, d in loops], block))
    locals_ = [Buffer(n.replace(".", "_"), work.dtypes[n], tuple(Int(d) for d in shape)) for n in work.shapes]
    return blocks, held[tail.nodes[-1].outputs[0]], locals_


def drop_rounding(given: Cast, result: Read, work: Work) -> tuple[Expr, Work]:
    """Keep sums in fp32 where all that reads them rounded makes fp32 of them again: one rounding and two casts less.
    Return (what a result is, the work), unchanged where anything reads the sums otherwise."""
    first = [s for s in work.statements if any(r.buffer == result.buffer for r in reads(s.value))]
    if any((s.op, s.value) != ("=", Cast("fp32", result)) or s.target.indices != result.indices for s in first):
        return given, work
    names = {s.target.buffer: result.buffer for s in first}
    kept = [Statement(s.target, s.op, rename_reads(s.value, names), s.init) for s in work.statements if s not in first]
    shapes = {n: d for n, d in work.shapes.items() if n not in names}
    return given.value, Work(kept, work.extents, shapes, {n: work.dtypes[n] for n in shapes} | {result.buffer: "fp32"})


def _each(e: Expr, held: dict[str, Read]) -> Expr:
    """Return an elementwise expression with what it reads put in."""
    return held[e.buffer] if isinstance(e, Read) else rebuild(e, lambda c: _each(c, held))


def _columns(w: Tensor) -> int:
    """Return columns of a packed weight with its zero padding: they are read for padding channels of the output."""
    return -(-w.shape[-1] // 16) * 16


def _spatial(indices: list[Expr], node: OpNode) -> list[Expr]:
    """Return the row and column index of the image; of a 1x1 filter without its taps."""
    if node.attribute("kernel") != (1, 1):
        return indices[2:4]
    return [normalise(substitute(i, {"k": Int(0)})) for i in indices[2:4]]


def _prefix_loops(prefix: str, loops: list[tuple[str, int]]) -> dict[str, Expr]:
    return {v: Var(f"{prefix}_{v}") for v, _ in loops}


def _at(read: Read, names: dict[str, Expr]) -> Read:
    return Read(read.buffer, tuple(substitute(i, names) for i in read.indices))
