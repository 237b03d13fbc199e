"""Products: loads from L1 to L0 and their mmads become mmadL1, which takes tiles of L1 and splits them over L0 on its own.

An mmad names tiles of L0. The loads of these tiles say which tile of L1 is meant, as a view. A view is the first element, and the
distances between fractals along k and along the rows or columns. A loop that only adds up such products along k becomes one product of
all its k.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aoec.hivm.body import TYPES
from aoec.hivm.site import Site
from aoec.hivm.views import Base, View, offset_of, op, view
from aoec.ir.index import DTYPES, Expr, Int, Var, ceildiv, eq, minimum, multiple, substitute, variables
from aoec.ir.program import Advance, For, Instr, Item, Ref, SetFlag, Space, Tensor, WaitFlag
from aoec.ir.text.simplify import Scope
from aoec.target.isa.instructions import BLOCK_BYTES, FRACTAL_BYTES

ROWS = 16  # of a fractal
LOADS = ("load_l0a", "load_l0b", "load3d", "load_bt")
PRODUCTS = ("mmad", "mmad_bias")
INSIDE = frozenset([("MTE1", "M"), ("M", "MTE1")])  # flags between the pipes that mmadL1 orders on its own
RELEASE = ("MTE1", "MTE2")  # pipes of the flag that gives a buffer in L1 back
COPIES = ("copy_gm_l1", "copy_gm_l1_nd2nz")
QUANT = {("fp16", "fp32"): "F322F16", ("bf16", "fp32"): "F322BF16", ("fp32", "fp32"): "", ("int32", "int32"): ""}
ZEROS = "zeros"  # a tile of zeros in L1, behind the buffers


@dataclass(frozen=True)
class Tile:
    """A tile of fractals in L1. `at`: its first element, from the start of the buffer; steps between fractals along k and along the other
    side, in elements. `is_turned`: a fractal holds rows along the other side, of elements along k. `is_ragged`: the rows of an image are no
    whole fractals, so that those of the next channels begin between two."""

    buffer: str
    at: Expr
    along_k: Expr
    across: Expr
    is_turned: bool
    is_ragged: bool = False


@dataclass(frozen=True)
class Product:
    """One mmadL1: m x k times k x n onto a tile of L0C. `bias`: a buffer in L1 and its first element."""

    site: Site
    a: Tile
    b: Tile
    m: Expr
    n: Expr
    k: Expr
    init: Expr
    c: Expr
    bias: tuple[str, Expr] | None = None


@dataclass(frozen=True)
class Load:
    """A load where it stands: the loops around it, and its place among all lines."""

    site: Site
    path: tuple[For, ...]
    place: int


@dataclass
class Loads:
    """What L0 and BT were loaded with since they were last used."""

    buffers: Mapping[str, Tensor | Space]
    guards: Sequence[tuple[Expr, str]]
    found: dict[str, list[Load]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    place: int = 0
    released: dict[str, int] = field(default_factory=dict)  # buffer in L1 -> place of the last flag that gives it back
    advanced: dict[str, int] = field(default_factory=dict)

    def note(self, item: Item, scope: Scope) -> None:
        """Note the position of a flag or of a counter's step."""
        self.place += 1
        if isinstance(item, Advance):
            self.advanced[item.counter] = self.place
        elif isinstance(item, SetFlag) and (item.source, item.target) == RELEASE:
            self.released.update(dict.fromkeys(buffers_of(item, self.guards, scope), self.place))

    def add(self, site: Site, path: Sequence[For]) -> None:
        """Keep a load for the product that uses it."""
        self.place += 1
        name = site.ref("dst").buffer
        if name in self.used:
            self.used.discard(name)
            self.found[name] = []
        self.found.setdefault(name, []).append(Load(site, tuple(path), self.place))

    def check_loop(self, loop: For) -> None:
        """Raise UnsupportedError where a loop loads for its next turn what mmadL1 loads on its own."""
        uses = {r.buffer for i in instructions(loop.body) if i.op in PRODUCTS for n in ("a", "b", "bias")
                if isinstance(r := dict(i.fields).get(n), Ref)}
        for name in uses - self.used:
            if any(loop in load.path for load in self.found.get(name, [])):
                raise self.found[name][0].site.refusal("it loads for the next turn of a loop, and mmadL1 loads what it uses")

    def of(self, site: Site, operand: str, path: Sequence[For]) -> tuple[Site, dict[str, Expr], list[For]]:
        """Return the one load that filled an operand, values for the variables of its loops of one turn, and its other loops outside
        the product."""
        ref = site.ref(operand)
        loads = self.found.get(ref.buffer, [])
        self.used.add(ref.buffer)
        if len(loads) != 1:
            raise site.refusal(f"{operand} is filled by {len(loads) or 'no'} loads" + (
                ", and a view is of one" if loads else " before it in its loop"))
        load = loads[0]
        if self.released.get(load.site.ref("src").buffer, -1) > load.place:
            raise load.site.refusal("its buffer in L1 is given back before the product, and mmadL1 reads L1")
        stale = [c for r in (load.site.ref("dst"), load.site.ref("src")) for c in variables(r.slot)
                 if self.advanced.get(c, 0) > load.place]
        if stale or load.site.ref("dst").slot != ref.slot:
            raise load.site.refusal("the product takes another slot than the one that was loaded")
        inner = [f for f in load.path if f not in path]
        once: dict[str, Expr] = {f.var: Int(0) for f in inner if f.trips == Int(1)}
        return load.site, once, [f for f in inner if f.trips != Int(1)]


def instructions(items: Sequence[Item]) -> list[Instr]:
    """Return every instruction of a body that runs at all."""
    out: list[Instr] = []
    for item in items:
        if isinstance(item, For) and item.trips != Int(0):
            out += instructions(item.body)
        elif isinstance(item, Instr):
            out.append(item)
    return out


def is_inside(item: Item) -> bool:
    """Return whether an item is part of what mmadL1 does on its own: loads of L0, and flags between MTE1 and M."""
    if isinstance(item, For):
        return item.trips == Int(0) or all(is_inside(i) for i in item.body)
    if isinstance(item, (SetFlag, WaitFlag)):
        return (item.source, item.target) in INSIDE
    return isinstance(item, Advance) or isinstance(item, Instr) and item.op in LOADS


def sums_up(loop: For) -> bool:
    """Return whether a loop has one product, or one loop of this kind, and else nothing but what is part of it."""
    rest = [i for i in loop.body if not is_inside(i)]
    return len(rest) == 1 and (isinstance(rest[0], Instr) and rest[0].op in PRODUCTS or isinstance(rest[0], For) and sums_up(rest[0]))


def guards_of(items: Sequence[Item]) -> list[tuple[Expr, str]]:
    """Return ids of flags from MTE1 to MTE2, each with the buffer in L1 that it guards. The wait comes before the copies into its
    buffer."""
    out: list[tuple[Expr, str]] = []
    for at, item in enumerate(items):
        if isinstance(item, For) and item.trips != Int(0):
            out += guards_of(item.body)
        elif isinstance(item, WaitFlag) and (item.source, item.target) == RELEASE:
            copies = [i["dst"] for i in instructions(items[at + 1:]) if i.op in COPIES]
            out += [(item.id, copies[0].buffer)] if copies and isinstance(copies[0], Ref) else []
    return out


def may_be(a: Expr, b: Expr, scope: Scope) -> bool:
    """Return whether two ids can be the same number."""
    return scope.least(a - b) <= 0 <= scope.most(a - b)


def buffers_of(flag: SetFlag, guards: Sequence[tuple[Expr, str]], scope: Scope) -> set[str]:
    """Return the buffers in L1 that a flag may give back."""
    return {buffer for number, buffer in guards if may_be(number, flag.id, scope)}


def defer_release(items: Sequence[Item], guards: Sequence[tuple[Expr, str]], scope: Scope) -> list[Item]:
    """Return a body in which a buffer in L1 is given back behind the products that mmadL1 reads it for, and not behind its load into L0 or
    BT."""
    out, at = list(items), 0
    while at < len(out):
        item = out[at]
        if isinstance(item, SetFlag) and (item.source, item.target) == RELEASE:
            freed = buffers_of(item, guards, scope)
            loaded = {i["dst"].buffer for i in instructions(out[:at]) if i.op in LOADS  # type: ignore[union-attr]
                      and i["src"].buffer in freed}  # type: ignore[union-attr]
            last = max((j for j in range(at + 1, len(out)) if any(_uses(i) & loaded for i in instructions(out[j:j + 1]))), default=at)
            if last > at and not any(_waits(i, item, scope) for i in out[at + 1:last + 1]):
                out = [*out[:at], *out[at + 1:last + 1], item, *out[last + 1:]]
                continue
        at += 1
    return out


def _uses(item: Instr) -> set[str]:
    """Return what an instruction reads of L0 and BT."""
    return {r.buffer for n in ("a", "b", "bias") if isinstance(r := dict(item.fields).get(n), Ref)} if item.op in PRODUCTS else set()


def _waits(item: Item, flag: SetFlag, scope: Scope) -> bool:
    """Return whether an item waits for a flag, or may."""
    if isinstance(item, For):
        return item.trips != Int(0) and any(_waits(i, flag, scope) for i in item.body)
    return isinstance(item, WaitFlag) and (item.source, item.target) == RELEASE and may_be(item.id, flag.id, scope)


# ---------------------------------------------------------------- tiles

def _same(scope: Scope, a: Expr, b: Expr) -> bool:
    return scope(a - b) == Int(0) or scope(a) == scope(b)


def tile_of_a(site: Site, loads: Loads, path: Sequence[For]) -> Tile:
    """Return the tile of L1 that the left side was loaded from: windows of one position, or fractals."""
    load, once, loops = loads.of(site, "a", path)
    if load.op != "load3d":
        rows, along = ceildiv(site.expr("m"), ROWS), ceildiv(site.expr("k"), BLOCK_BYTES // load.size("src"))
        at, across, along_k = fractals_of(site, load, "a", once, loops, (rows, along))
        return Tile(load.ref("src").buffer, at, along_k, across, load.expr("transpose") != Int(0))
    if loops:
        raise load.refusal("it fills a tile in several steps, and a view is of one")
    numbers = {n: substitute(load.expr(n), once) for n in load.fields}
    window = [numbers[n] for n in ("filter_h", "filter_w", "stride_h", "stride_w")]
    if any(w != Int(1) for w in window) or any(numbers[f"pad_{s}"] != Int(0) for s in ("top", "bottom", "left", "right")):
        raise load.refusal("it takes windows of an image, and the tile of mmadL1 is of fractals. Conv2dL1 takes windows, with paddings "
                           "that are constants and the same on both sides; how it has an image lie in L1 is not known")
    if numbers["channels"] == Int(4) and load.size("src") == 2:
        raise load.refusal("its pixels have four channels, and fractals have 16")
    for mine, theirs in (("k", "k_size"), ("m", "m_size")):
        if not _same(site.scope, site.expr(mine), numbers[theirs]):
            raise load.refusal(f"{theirs} is not the {mine} of the product")
    c0, ref, rows = BLOCK_BYTES // load.size("src"), load.ref("src"), numbers["h"] * numbers["w"]
    if not _same(site.scope, substitute(load.ref("dst").offset, once), site.ref("a").offset):
        raise load.refusal("it fills another part of L0A than the product takes")
    if multiple(numbers["k_start"]) % c0:
        raise load.refusal("k_start is not known to be of whole fractals")
    at = substitute(offset_of(ref, load.buffers[ref.buffer]), once) + numbers["k_start"] // c0 * (rows * c0) + numbers["m_start"] * c0
    return Tile(ref.buffer, at, rows * c0, Int(ROWS * c0), False, multiple(rows) % ROWS != 0)


def tile_of_b(site: Site, loads: Loads, path: Sequence[For]) -> Tile:
    """Return the tile of L1 that the right side was loaded from."""
    load, once, loops = loads.of(site, "b", path)
    along, columns = ceildiv(site.expr("k"), BLOCK_BYTES // load.size("src")), ceildiv(site.expr("n"), ROWS)
    at, along_k, across = fractals_of(site, load, "b", once, loops, (along, columns))
    return Tile(load.ref("src").buffer, at, along_k, across, load.expr("transpose") == Int(0))


def fractals_of(site: Site, load: Site, side: str, once: Mapping[str, Expr], loops: Sequence[For],
                counts: tuple[Expr, Expr]) -> tuple[Expr, Expr, Expr]:
    """Return the start in L1 of a tile that load2d copied to L0 fractal by fractal, and the two distances of its fractals. These are
    along the outer and along the inner side of the order in L0. `counts` holds the number of fractals of either."""
    if len(loops) > 1:
        raise load.refusal("it fills a tile in several steps, and a view is of one")
    scope, size = site.scope, FRACTAL_BYTES // load.size("src")
    loop = loops[0] if loops else For("", Int(1), ())

    def at(e: Expr, turn: int) -> Expr:
        return substitute(e, {**once, loop.var: Int(turn)})

    def step(e: Expr) -> Expr:
        """Return how far an expression moves on in a turn of the loop."""
        first, second = scope(at(e, 1) - at(e, 0)), scope(at(e, 2) - at(e, 1))
        if first != second:
            raise load.refusal("its tiles do not lie at even distances")
        return first
    src, dst = load.ref("src"), load.ref("dst").offset
    start = offset_of(src, load.buffers[src.buffer])
    if not _same(scope, at(dst, 0), site.ref(side).offset):
        raise load.refusal("it fills another part of L0 than the product takes")
    if not isinstance(load.expr("transpose"), Int) or any(loop.var in variables(load.expr(n)) for n in ("repeat", "src_stride", "dst_gap")):
        raise load.refusal("what it moves changes from turn to turn")
    outer, inner = (Int(1) if scope.most(c) <= 1 else scope(c) for c in counts)  # with none nothing is multiplied
    repeat, each, gap = (substitute(load.expr(n), once) for n in ("repeat", "src_stride", "dst_gap"))
    to, source = (step(dst), step(start)) if loops else (Int(0), Int(0))
    if loops and _same(scope, loop.trips, outer) and _same(scope, repeat, inner) and gap == Int(0) and _same(scope, to, inner * size):
        return at(start, 0), source, each * size
    if loops and _same(scope, loop.trips, inner) and _same(scope, repeat, outer) and to == Int(size) and _same(scope, gap + 1, inner):
        return at(start, 0), each * size, source
    if not loops and _same(scope, repeat, outer * inner) and gap == Int(0):
        return at(start, 0), scope(each * inner * size), each * size
    raise load.refusal("how it lays fractals into L0 is not that of one tile in L1")


def bias_of(site: Site, loads: Loads, path: Sequence[For]) -> tuple[str, Expr]:
    """Return where in L1 the bias lies that BT was loaded with."""
    load, once, loops = loads.of(site, "bias", path)
    if loops:
        raise load.refusal("it fills the table in several steps")
    ref, used = load.ref("src"), site.ref("bias")
    there = substitute(load.ref("dst").offset, once)
    return ref.buffer, substitute(offset_of(ref, load.buffers[ref.buffer]), once) + used.offset - there


def product_of(site: Site, loads: Loads, path: Sequence[For]) -> Product:
    """Return the product that an mmad is, in terms of L1."""
    c = site.ref("dst")
    bias = bias_of(site, loads, path) if site.op == "mmad_bias" and site.expr("init") != Int(0) else None
    return Product(site, tile_of_a(site, loads, path), tile_of_b(site, loads, path), site.expr("m"), site.expr("n"), site.expr("k"),
                   site.expr("init"), offset_of(c, site.buffers[c.buffer]), bias)


def reach_of(items: Sequence[Item]) -> frozenset[str]:
    """Return buffers in L1 that products read on behind their end: images whose rows are no whole fractals."""
    return frozenset(src.buffer for i in instructions(items) if i.op == "load3d" and isinstance(src := i["src"], Ref)
                     and isinstance(h := i["h"], Expr) and isinstance(w := i["w"], Expr) and multiple(h * w) % ROWS)


def sum_of(product: Product, loop: For, scope: Scope) -> Product | None:
    """Return the product that a loop adds up along k; None where it is none."""
    v, c0 = loop.var, BLOCK_BYTES // product.site.size("a")

    def at(e: Expr, turn: int) -> Expr:
        return substitute(e, {v: Int(turn)})
    if any(v in variables(e) for e in (product.m, product.n, product.k, product.c, product.a.across, product.b.across,
                                       product.a.along_k, product.b.along_k)):
        return None
    if multiple(product.k) % c0 and loop.trips != Int(1) or product.bias and v in variables(product.bias[1]):
        return None
    if loop.trips != Int(1):
        for tile in (product.a, product.b):
            steps = [scope(at(tile.at, t + 1) - at(tile.at, t)) for t in (0, 1)]
            if steps[0] != steps[1] or not _same(scope, steps[0], product.k // c0 * tile.along_k):
                return None
        if v in variables(product.init):
            if scope.above(v, 1).most(product.init) > 0:
                return None
        elif product.init != Int(0):
            return None
    a, b = (replace(t, at=at(t.at, 0)) for t in (product.a, product.b))
    return replace(product, a=a, b=b, k=scope(product.k * loop.trips), init=scope(at(product.init, 0)))


# ---------------------------------------------------------------- lines

def write_product(product: Product, zeros: Base | None) -> None:
    """Write the lines of a product. With a bias, a product of zeros first writes the bias where the right side is transposed: the wheel
    lowers a product with a bias to a routine that does not transpose it. A ragged tile becomes a product for each of its planes."""
    site, body = product.site, product.site.body
    m, n, k, c0 = product.m, product.n, product.k, BLOCK_BYTES // site.size("a")
    cube = site.scope(ceildiv(k, c0))
    rows, columns = site.scope(ceildiv(m, ROWS)), site.scope(ceildiv(n, ROWS))
    left, t = product.a, product.b
    if (not t.is_turned or left.is_turned) and c0 != ROWS:
        raise site.refusal(f"fractals of {site.dtype('b')} are turned in L0, and those of mmadL1 are not square")

    def tile(tile: Tile, is_k_first: bool, across: Expr, at: Expr, long: Expr) -> View:
        """Return a view of `long` fractals of k of a tile, from fractal `at` on."""
        sizes, steps = ((long, across), (tile.along_k, tile.across)) if is_k_first else ((across, long), (tile.across, tile.along_k))
        start = site.scope(tile.at + at * tile.along_k)
        return view(body, site.bases[tile.buffer], start, (*sizes, ROWS, c0), (*steps, c0, 1), tile.buffer)

    def a(at: Expr, long: Expr) -> View:
        return tile(left, not left.is_turned, rows, at, long)

    def b(at: Expr, long: Expr) -> View:
        return tile(t, t.is_turned, columns, at, long)
    name = site.ref("dst").buffer
    c = view(body, site.bases[name], site.scope(product.c), (columns, rows, ROWS, ROWS), (rows * ROWS * ROWS, ROWS * ROWS, ROWS, 1), name)
    init = product.init
    if product.bias is not None:
        if zeros is None or c0 != ROWS:
            raise site.refusal(f"a bias of a product of {site.dtype('a')}")
        buffer, start = product.bias

        def write_bias() -> None:
            bias = view(body, site.bases[buffer], site.scope(start), (n,), (1,), buffer)
            none = view(body, zeros, Int(0), (1, rows, ROWS, c0), (rows * ROWS * c0, ROWS * c0, c0, 1), ZEROS)
            any_b = view(body, site.bases[t.buffer], site.scope(t.at), (columns, 1, ROWS, c0), (ROWS * c0, ROWS * c0, c0, 1), t.buffer)
            _mmad(site, [none, any_b], Int(1), (m, Int(c0), n), c, "", (bias.value, bias.type))
        if init == Int(1):
            write_bias()
        elif init != Int(0):
            with body.region(f"scf.if {body.truth(init)} {{"):
                write_bias()
        init = Int(0)
    turned = [word for word, side in (("a_transpose", left), ("b_transpose", t)) if side.is_turned]
    attributes = f"{{{', '.join(turned)}}}" if turned else ""
    if not left.is_ragged or cube == Int(1):
        _mmad(site, [a(Int(0), cube), b(Int(0), cube)], init, (m, k, n), c, attributes, None)
        return
    plane = body.name("plane")
    site.scope.variable(plane, 0, max(site.scope.most(cube) - 1, 0))
    body.vars[plane] = plane
    with body.region(f"scf.for {plane} = {body.constant(0)} to {body.index(cube)} step {body.constant(1)} {{"):
        p = Var(plane)
        each = Int(c0) if multiple(k) % c0 == 0 else minimum(k - p * c0, c0)
        first = init if init == Int(0) else init * eq(p, 0)
        _mmad(site, [a(p, Int(1)), b(p, Int(1))], first, (m, each, n), c, attributes, None)


def _mmad(site: Site, tiles: Sequence[View], init: Expr, sizes: Sequence[Expr], c: View, attributes: str,
          bias: tuple[str, str] | None) -> None:
    ins = [(v.value, v.type) for v in tiles] + [(site.body.truth(init), "i1")]
    ins += [(site.body.index(e), "index") for e in sizes] + ([bias] if bias else [])
    op(site.body, "mmadL1", ins, [c], attributes)


def fixpipe(site: Site) -> None:
    """Write the copy of a tile of L0C into GM. It is written as rows, or as fractals plane by plane, where a plane is a matrix of 16
    columns."""
    pair = (site.dtype("dst"), site.dtype("src"))
    if pair not in QUANT:
        raise site.refusal(f"fixpipe has no mode from {pair[1]} to {pair[0]}")
    if site.expr("relu") not in (Int(0), Int(1)):
        raise site.refusal("whether it cuts off what is below 0 is known only when the kernel runs")
    m, n, tall, body = site.expr("m"), site.expr("n"), site.expr("src_rows"), site.body
    rows, stride = site.simplify(ceildiv(m, ROWS)), site.expr("dst_stride")
    attributes = ["dma_mode = #hivm.dma_mode<nz2nd>"]
    attributes += [f"pre_quant = #hivm.fixpipe_pre_quant_mode<{QUANT[pair]}>"] if QUANT[pair] else []
    attributes += ["pre_relu = #hivm.fixpipe_pre_relu_mode<NORMAL_RELU>"] if site.expr("relu") == Int(1) else []
    text, kind = f"{{{', '.join(attributes)}}}", TYPES[site.dtype("dst")]

    def write(at: Expr, columns: Expr, wide: Expr, to: Expr, step: Expr) -> None:
        src = site.view("src", at, (columns, rows, ROWS, ROWS), (tall * ROWS, ROWS * ROWS, ROWS, 1))
        dst = site.view("dst", to, (m, wide), (step, 1))
        op(body, "fixpipe", [(src.value, src.type)], [dst], text)
    adds = site.adds()
    if adds:
        body.line(f"hivm.hir.set_atomic kind = <add>[type = {kind}]")
    if site.op == "fixpipe_nd":
        write(Int(0), site.simplify(ceildiv(n, ROWS)), n, Int(0), stride)
    else:
        if DTYPES[pair[0]] != 2:
            raise site.refusal(f"planes of {pair[0]} have eight columns, and those of L0C 16")
        plane = body.name("plane")
        site.scope.variable(plane, 0, max(site.scope.most(n) // ROWS - 1, 0))
        body.vars[plane] = plane
        with body.region(f"scf.for {plane} = {body.constant(0)} to {body.index(site.simplify(n // ROWS))} step {body.constant(1)} {{"):
            write(Var(plane) * (tall * ROWS), Int(1), Int(ROWS), Var(plane) * stride, Int(ROWS))
    if adds:
        body.line(f"hivm.hir.set_atomic kind = <none>[type = {kind}]")


FUNCTIONS: dict[str, Callable[[Site], None]] = {"fixpipe_nd": fixpipe, "fixpipe_nz": fixpipe}
