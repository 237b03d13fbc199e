"""Sketches of attention in one pass over the keys: tiles of queries on each core, parts of keys in them.

Names of holes:
- tr: rows of queries of a vector core; vc: vector cores that a cube core uses; tp: keys of a part, in repeats of 64.
- n1: keys of an L0 tile of the scores, in fractals; k1: keys of an L0 tile of the product with the softmax shares, in fractals.
- gb, gm: parts over cores.
- di, do: slots in UB of what vector cores take and give; dc: slots of an L0 tile of scores; d0b: slots of right operands in L0B.
- pl: parts that scores are ahead; ps: parts that they are ahead where they are made, if that is on other cores.

Keys and values in L1 have two slots, and buffers in GM between cores have three: there is room. There are few choices. Where there are many
parts, they are not small.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aoec import primitives
from aoec.ir.func.tir import Func, Loop
from aoec.ir.index import Binary, Expr, Int, Read, variables
from aoec.ir.schedule import Step, Trace
from aoec.search.sketches.nests import AHEAD, Nest, find_product, hole, nests, output_nest, parts
from aoec.search.sketches.plan import SLOTS, Plan, cores_of, factors
from aoec.target.machine import Machine

LANES, BLOCK = 64, 8  # elements of fp32 that a repeat takes, and of a block
ROWS, PARTS, FRACTALS = (16, 32, 48, 64, 96, 128), (1, 2, 3, 4, 6, 8, 12, 16), (4, 8, 16)
MOST_ROWS = 126  # with one more, of which the blocks of a column of fractals lie no further apart than a stride may be
RING = 3  # slots of what goes from cubes to vector cores
MOST_TILES, MOST_PARTS = 64, 32  # in which rows and keys are taken


def tall(m: int) -> tuple[int, ...]:
    """Return rows of a tile: usual ones, and even shares, with or without a second vector core."""
    even = {-(-m // (8 * n)) * 8 for n in (1, 2, 3, 4, 6, 8)}
    found = {r for r in (*ROWS, *even) if r <= ROWS[-1] and m <= r * MOST_TILES} or {ROWS[-1]}
    return tuple(sorted(r for r in found if r < m + 16))


def wide(n: int) -> tuple[int, ...]:
    """Return keys of a part, in repeats."""
    every = -(-n // LANES)
    return tuple(p for p in PARTS if p <= every and every <= p * MOST_PARTS) or PARTS[-1:]


def second_product(func: Func) -> Nest | None:
    """Return the product with what becomes of the first one's results: attention; None in other funcs."""
    first, made = find_product(func), [n for n in nests(func) if n.block.op == "+="]
    last = made[-1] if made else None
    other = last is not None and first is not None and last.block.name != first.block.name
    return last if other and last is not None and isinstance(last.block.value, Binary) else None


def attention_sketches(func: Func, machine: Machine) -> list[Trace]:
    """Return sketches for cores of two kinds, which meet in GM, or for cores with both cube and vector units. Keys are in parts. Where they
    are few, there are also sketches with all keys at once, leading axis by leading axis."""
    scores, product = find_product(func), second_product(func)
    assert scores is not None and product is not None
    keys = product.extent(product.loops[-1].var)
    forms: list[tuple[bool, bool, bool]] = [(False, False, False)]
    if keys <= LANES * PARTS[-1]:
        heads = all(side_by_side(r, n.loops) for n in (scores, product) for r in factors(n) if r.buffer in {b.name for b in func.inputs})
        forms += [(True, False, False)] + [(True, True, False)] * heads + [(True, False, True)] * (not machine.has("copy_gm_l1_nd2nz"))
    return [Trace(tuple(Sketch(Plan(func, machine), scores, product, "core" not in machine.cores, *form).steps())) for form in forms]


def side_by_side(r: Read, loops: Sequence[Loop]) -> bool:
    """Return whether what follows along the leading axis lies side by side in the rows of a matrix, such as the heads of one product. No
    other index moves with the leading axis."""
    lead = loops[0].var
    return len(r.indices) == 2 and lead in variables(r.indices[-1]) and lead not in variables(r.indices[0])


@dataclass
class Sketch:
    """A sketch in the making, of the product that makes the scores and the product with their softmax shares.

    `apart`: cube and vector units are on cores of their own. `whole`: the keys are one part. `together`: queries and keys of all heads of a
    core are loaded at once, one row a burst. Values come head by head, since all work in a loop waits for what is loaded around it.
    `direct`: MTE2 brings blocks of rows to their places in fractals, one block a burst.
    """

    plan: Plan
    scores: Nest
    product: Nest
    apart: bool
    whole: bool = False
    together: bool = False
    direct: bool = False

    @property
    def around(self) -> str:
        """Return the loop around what is done for a part of the keys."""
        return "b_s" if self.whole else "n_t"

    @property
    def c(self) -> str:
        """Return the buffer of the scores."""
        return self.scores.block.target.buffer

    @property
    def o(self) -> str:
        """Return the buffer of the result."""
        return self.product.block.target.buffer

    @property
    def p(self) -> str:
        """Return the buffer of the shares."""
        return factors(self.product)[0].buffer

    @property
    def by_rows(self) -> bool:
        """Return whether operands come by way of UB, and so all that MTE1 waits for from MTE3, with a flag for each slot."""
        return not self.direct and not self.plan.machine.has("copy_gm_l1_nd2nz")

    def steps(self) -> list[Step]:
        """Return the steps."""
        p, cores = self.plan, cores_of(self.plan.machine)
        lead, rows, columns, keys = [lp.var for lp in self.product.loops]
        self.one_pass(rows, columns, keys)
        p.share(lead, hole("gb", parts(self.product.extent(lead), cores)), "b_c", "b_s")
        p.share("m_t", hole("gm", parts(self.product.extent(rows), cores)), "m_c", "m_s")
        p.add("reorder", loops=("b_c", "m_c", "m_s", "b_s") if self.whole else ("b_c", "m_c", "b_s", "m_s"))
        if self.whole:
            self.once_a_core()
        self.first()
        self.second()
        self.vectors()
        self.overlap()
        p.add("bind", loop="b_c")
        p.add("bind", loop="m_c")
        return p.steps

    def one_pass(self, rows: str, columns: str, keys: str) -> None:
        """Turn the softmax into one pass over the keys."""
        m, n, e = (self.product.extent(v) for v in (rows, keys, columns))
        shares = {"shares": hole("vc", (1, 2))} if self.apart else {}
        part: Expr = Int(-(-n // LANES) * LANES) if self.whole else hole("tp", wide(n)) * LANES
        whole = {"whole": Int(1)} if self.whole else {}
        rows_of_tiles = tuple(r for r in tall(m) if r <= MOST_ROWS or not self.by_eights) or tall(m)[:1]
        self.plan.add("online", block=self.product.block.name, rows=hole("tr", rows_of_tiles), keys=part, **whole, **shares,
                      columns=Int(-(-e // LANES) * LANES))

    def once_a_core(self) -> None:
        """Compute once on each core what is the same for all tiles of queries. The last block is placed first, because each block reads the
        results of earlier ones."""
        now = primitives.apply(self.plan.func, Trace(tuple(self.plan.steps)))
        for n in reversed([n for n in nests(now) if "m_c" not in {lp.var for lp in n.loops}]):
            self.plan.add("compute_at", block=n.block.name, loop="m_c")

    def first(self) -> None:
        """Lay out the scores of a part: an L0 tile of keys at a time, or all at once where they leave L0C for UB."""
        p, name, tile = self.plan, self.scores.block.name, self.around
        q, k = (r.buffer for r in factors(self.scores))
        if self.apart:
            tile = "s_0"
            p.split(f"{name}_j", hole("n1", FRACTALS) * 16, "s_0", "s_j")
            p.add("reorder", loops=("s_0", f"{name}_r", "s_j", f"{name}_k"))
            p.add("compute_at", block=f"{self.c}_out", loop="s_0")
        p.add("set_scope", buffer=self.c, scope="L0C", layout="NZ")
        self.operand(name, q, "b_s" if self.whole and not self.together else "m_s", "L0A", "ZZ", self.around)
        self.operand(name, k, "m_c" if self.together else self.around, "L0B", "NZ", tile)
        self.leave(name, self.c)
        p.add("double_buffer", buffer=f"{k}_L1", depth=self.slots("da"))
        p.add("double_buffer", buffer=self.c, depth=hole("dc", SLOTS))
        p.add("double_buffer", buffer=f"{k}_L0B", depth=hole("d0b", SLOTS))

    def second(self) -> None:
        """Lay out the product of a part with its softmax shares: an L0 tile of keys at a time, summed in L0C."""
        p, name = self.plan, self.product.block.name
        values = factors(self.product)[1]
        v, turned = values.buffer, self.product.loops[-1].var in variables(values.indices[-1])
        p.split(f"{name}_k", hole("k1", FRACTALS) * 16, "p_0", "p_k")
        p.add("reorder", loops=("p_0", f"{name}_r", f"{name}_j", "p_k"))
        p.add("set_scope", buffer=f"{self.o}_part", scope="L0C", layout="NZ")
        self.operand(name, v, self.around, "L0B", "NZ" if turned else "ZN", "p_0")  # first: MTE2 waits for the shares
        if self.apart:
            self.operand(name, f"{self.p}_out", self.around, "L0A", "ZZ", "p_0")
        else:
            p.add("set_scope", buffer=f"{self.p}_out", scope="L1", layout="NZ")
            p.add("cache_read", block=name, buffer=f"{self.p}_out", scope="L0A", at="p_0", layout="ZZ")
        self.leave(name, self.o)
        p.add("double_buffer", buffer=f"{v}_L1", depth=self.slots("db"))
        p.add("double_buffer", buffer=f"{self.p}_out", depth=Int(min(2, p.machine.flag_ids - 3) if self.by_rows else 2))
        p.add("double_buffer", buffer=f"{v}_L0B", depth=hole("d0b", SLOTS))

    def slots(self, name: str) -> Expr:
        """Return slots of what lies in L1: two, where there are flags for them."""
        return Int(2) if self.apart else hole(name, SLOTS)

    def leave(self, block: str, buffer: str) -> None:
        """Add the product's instruction, and the move of its results out of L0C: to GM, or in fractals to UB."""
        self.plan.add("tensorize", loop=f"{block}_r", instr="mmad")
        if self.apart:
            self.plan.add("double_buffer", buffer=f"{buffer}_out", depth=Int(RING))
        else:
            self.plan.add("set_scope", buffer=f"{buffer}_out", scope="UB", layout="NZ")
        self.plan.add("tensorize", loop=f"{buffer}_out_r", instr="fixpipe" if self.apart else "drain")

    def operand(self, block: str, buffer: str, at: str, scope: str, layout: str, at0: str) -> None:
        """Bring an operand through L1. Where MTE2 cannot change the layout, bring it through UB before: rows come in a run, which MTE3
        splits into fractals."""
        by = buffer
        if self.by_rows:
            self.plan.add("cache_read", block=block, buffer=buffer, scope="UB", at=at)
            by = f"{buffer}_UB"
        self.plan.add("cache_read", block=block, buffer=by, scope="L1", at=at, layout="NZ")
        self.plan.add("cache_read", block=block, buffer=f"{buffer}_L1", scope=scope, at=at0, layout=layout)

    def vectors(self) -> None:
        """Put what pipe V works on into UB, each block as one instruction, and add its slots."""
        p = self.plan
        now = primitives.apply(p.func, Trace(tuple(p.steps)))
        for buffer in sorted(b.name for b in now.locals if b.scope == "GM" and not b.name.endswith("_out")):
            drained = not self.apart and buffer in (f"{self.c}_in", f"{self.o}_in")  # blocks of a column of fractals, eight rows a repeat
            p.add("set_scope", buffer=buffer, scope="UB", **({"pad": self.padding(buffer)} if drained else {}))
        if self.p in {b.name for b in now.locals}:  # not shares in fp32, which stay where the scores lie
            p.add("double_buffer", buffer=self.p, depth=hole("do", SLOTS))
        for n in nests(now):
            if n.block.instr is None:
                first = next(lp.var for lp in n.loops if lp.var.startswith(n.block.name) and lp.kind == "serial")
                p.add("tensorize", loop=first, instr=self.word(n.block.name))

    def padding(self, buffer: str) -> Expr:
        """Return how much further apart rows are placed that come out of fractals: a block. It is 0 where eight columns of a row are a
        repeat, and lie in as many banks. Then rows follow each other, and one instruction works on all."""
        return Int(0 if self.by_eights and buffer == f"{self.c}_in" else BLOCK)

    @property
    def by_eights(self) -> bool:
        """Return whether scores come out of fractals by eight columns of a row a repeat."""
        keys = self.product.extent(self.product.loops[-1].var)
        return self.whole and not self.apart and keys % LANES == 0 and keys >= 2 * LANES

    def word(self, block: str) -> str:
        """Return what a block between the products is: a copy between GM and UB, a result out of fractals, an operation."""
        if not self.apart and block in (f"{self.c}_in", f"{self.o}_in"):
            return "epilogue"
        moves = block.endswith(("_in", "_out")) or block == output_nest(self.plan.func).block.name
        return "copy" if moves else "vector"

    def overlap(self) -> None:
        """Make the scores of the next part, and bring them, while this part's scores are worked on. The result of a part is added one part
        late."""
        p, ahead = self.plan, hole("pl", AHEAD)
        if self.apart:
            p.add("double_buffer", buffer=f"{self.c}_in", depth=hole("di", SLOTS))
            p.add("preload", buffer=f"{self.c}_in", ahead=ahead)
        else:
            p.add("postpone", buffer=f"{self.o}_out")
        if self.apart:
            p.add("preload", buffer=f"{self.c}_out", ahead=hole("ps", (1, 2)))
        else:
            p.add("preload", buffer=self.c, ahead=ahead)
        p.add("postpone", buffer=f"{self.o}_in")
        if self.whole:
            p.add("postpone", buffer=f"{output_nest(p.func).block.target.buffer}_tile")
