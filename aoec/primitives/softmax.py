"""A softmax between two products, recognised in a func of nests that stand one after the other."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.base.errors import ScheduleError
from aoec.ir.func.evaluate import block_reads
from aoec.ir.func.tir import Block, Func, Loop
from aoec.ir.index import Binary, Call, Cast, Expr, Int, Read, Var, variables
from aoec.primitives.nest import chain

NOTHING = Read("", ())
LEAD, ROW, KEY, COLUMN, DEEP = "bmned"  # axes: leading, queries, keys, columns of the result, what scores are sums over


@dataclass(frozen=True, slots=True)
class Nest:
    """A block in loops of its own; `axes`: what each of its loops runs over."""

    block: Block
    loops: tuple[Loop, ...]
    axes: dict[str, str]

    def extent(self, axis: str) -> Expr:
        """Return the extent of the loop over an axis."""
        return next(lp.extent for lp in self.loops if self.axes.get(lp.var) == axis)

    def loop(self, axis: str) -> str:
        """Return the loop over an axis. Return "" where there is none."""
        return next((v for v, a in self.axes.items() if a == axis), "")


@dataclass(frozen=True, slots=True)
class Softmax:
    """The nests by what they do, in order: the product that makes the scores, what is done to each score, the greatest of a row, each
    score's distance from it and exp of that, their sum, the shares (cast, or none), the product with them, and what follows."""

    scores: Nest
    before: tuple[Nest, ...]
    top: Nest
    gap: Nest
    exp: Nest
    total: Nest
    cast: Nest | None
    product: Nest
    after: tuple[Nest, ...]


def found_softmax(func: Func, product: str) -> Softmax:
    """Return the softmax whose shares the block `product` multiplies. Raise ScheduleError where it is none, or others use what belongs to
    it."""
    nests = _nests(func)
    made = {n.block.target.buffer: n for n in nests}
    at = next((i for i, n in enumerate(nests) if n.block.name == product), 0)
    shares = made.get(_left_factor(nests[at].block).buffer)
    if shares is None or len(made) < len(nests):
        raise ScheduleError(f"{product} is no product with what another block makes, or a buffer is made twice")
    cast = shares if isinstance(shares.block.value, Cast) else None
    exp = made.get(_read(cast.block).buffer, shares) if cast else shares
    gap = made.get(_read(exp.block).buffer, exp)
    top = made.get(_right(gap.block).buffer, gap)
    sums = [n for n in nests if n.block.op == "+=" and n.block.value == _on(exp, n)]
    if not sums or not _is(exp, "exp") or not _is(gap, "-") or top.block.op != "max=" or _read(top.block).buffer != _read(gap.block).buffer:
        raise ScheduleError(f"what {product} multiplies is not exp of the distance to the greatest score of a row, and summed")
    middle = [top, gap, exp, *sums[:1], *([cast] if cast else [])]
    before = tuple(nests[1:nests.index(top)])
    if [*nests[:1], *before, *sorted(middle, key=nests.index)] != nests[:at] or middle[:3] != sorted(middle[:3], key=nests.index):
        raise ScheduleError(f"other blocks stand between the scores and {product}")
    found = Softmax(nests[0], before, top, gap, exp, sums[0], cast, nests[at], tuple(nests[at + 1:]))
    _check(func, found)
    return found


def _check(func: Func, found: Softmax) -> None:
    """Raise ScheduleError unless each local is of the scores, of one element a row or of the result, and each block works element by
    element."""
    whole, rows, result = (LEAD, ROW, KEY), (LEAD, ROW, ""), (LEAD, ROW, COLUMN)
    kinds = [*[(n, (whole, (LEAD, KEY), (KEY,))) for n in found.before], *[(n, (rows,)) for n in (found.top, found.total)],
             *[(n, (whole,)) for n in (found.scores, found.gap, found.exp, *([found.cast] if found.cast else []))],
             *[(n, (result,)) for n in (found.product, *found.after)]]
    local = {b.name for b in func.locals}
    for n, shapes in kinds:
        b = n.block
        axes = [(r, tuple(_axis(i, n.axes) for i in r.indices)) for r in [b.target, *block_reads(b)]]
        odd = [r.buffer for r, a in axes if r.buffer in local and a not in (*shapes, whole, rows, result, (LEAD, KEY), (KEY,))]
        each = b.op == "=" or n in (found.scores, found.top, found.total, found.product)
        placed = b.target.buffer in local or set(n.axes.values()) != {LEAD, ROW, COLUMN}  # an output is written where its indices say
        if odd or placed and axes[0][1] not in shapes or b.init is not None or not each:
            raise ScheduleError(f"{b.name} does not work on each score, row or element of the result alone")
    sizes = {axis: n.extent(axis) for n in (found.product, found.scores) for axis in n.axes.values()}
    if any(n.extent(axis) != sizes[axis] for n, _ in kinds for axis in n.axes.values()):
        raise ScheduleError("blocks run over parts of an axis, not over all of it")
    first, last = found.scores.block.target.buffer, found.after[-1:]
    if func.buffer(first).dtype != "fp32" or not last or last[0].block.target.buffer in local or first not in local:
        raise ScheduleError(f"scores are sums in fp32, and what {found.product.block.name} makes is worked on before it is stored")
    if any(n.block.target.buffer not in local for n, _ in kinds[:-1]):
        raise ScheduleError("only the last block writes an output")


def _axis(i: Expr, axes: dict[str, str]) -> str:
    """Return the axis that an index runs along: "" where it stands at 0, "?" of any other."""
    return axes.get(i.name, "?") if isinstance(i, Var) else "" if i == Int(0) else "?"


def _is(n: Nest, word: str) -> bool:
    """Return whether a block applies a function or operation to a read."""
    e = n.block.value
    return isinstance(e, Call) and e.fn == word or isinstance(e, Binary) and e.op == word


def _on(made: Nest, n: Nest) -> Read:
    """Return what a block would read of all that another makes: the element of its own loops."""
    return Read(made.block.target.buffer, tuple(Var(n.loop(a)) for a in (LEAD, ROW, KEY)))


def _nests(func: Func) -> list[Nest]:
    """Return every block with its loops, their axes found from those of the locals: the two innermost of scores are rows and keys."""
    out: list[tuple[Block, tuple[Loop, ...]]] = []
    for node in func.body:
        loops, body = chain(node) if isinstance(node, Loop) else (list[Loop](), (node,))
        if len(body) != 1 or not isinstance(body[0], Block) or any(lp.kind != "serial" for lp in loops) or body[0].instr:
            raise ScheduleError("a softmax in one pass is made of blocks that have their own loops, not scheduled yet")
        out.append((body[0], tuple(loops)))
    known: dict[str, tuple[str, ...]] = {}
    axes: list[dict[str, str]] = [{} for _ in out]
    _of_products(out, axes)
    local = {b.name for b in func.locals}
    for _ in out:  # each turn knows a buffer more, or all
        for (block, _), own in zip(out, axes):
            _spread(block, own, known, local)
    return [Nest(block, around, own) for (block, around), own in zip(out, axes)]


def _of_products(nests: list[tuple[Block, tuple[Loop, ...]]], axes: list[dict[str, str]]) -> None:
    """Name the axes of the two products' results, and those that the products sum over."""
    made = [(b, own) for (b, _), own in zip(nests, axes) if _product(b)]
    if len(made) != 2:
        raise ScheduleError("a softmax in one pass stands between two products")
    for (b, own), names, other in zip(made, ((LEAD, ROW, KEY), (LEAD, ROW, COLUMN)), (DEEP, KEY)):
        if len(b.target.indices) != 3 or not all(isinstance(i, Var) for i in b.target.indices):
            raise ScheduleError("the products around a softmax in one pass have three plain axes each")
        own.update({i.name: axis for i, axis in zip(b.target.indices, names)})  # type: ignore[attr-defined]
        own.update({v: other for r in block_reads(b) for i in r.indices for v in variables(i) if v not in own})


def _spread(block: Block, own: dict[str, str], known: dict[str, tuple[str, ...]], local: set[str]) -> None:
    """Carry known axes from the locals that a block touches to its loops, and from its loops to these locals."""
    touched = [r for r in [block.target, *block_reads(block)] if r.buffer in local]
    for r in touched:
        for i, axis in zip(r.indices, known.get(r.buffer, ())):
            if isinstance(i, Var):
                own.setdefault(i.name, axis)
    for r in touched:
        if all(not isinstance(i, Var) or i.name in own for i in r.indices):
            known.setdefault(r.buffer, tuple(own[i.name] if isinstance(i, Var) else "" for i in r.indices))


def _product(b: Block) -> bool:
    v = b.value
    return b.op == "+=" and isinstance(v, Binary) and v.op == "*" and isinstance(v.left, Read) and isinstance(v.right, Read)


def _left_factor(b: Block) -> Read:
    """Return the left factor of a sum of products of two reads; for another block a read of nothing."""
    return b.value.left if _product(b) else NOTHING  # type: ignore[attr-defined, no-any-return]


def _right(b: Block) -> Read:
    """Return the right one of two reads; a read of nothing of another block."""
    return b.value.right if isinstance(b.value, Binary) and isinstance(b.value.right, Read) else NOTHING


def _read(b: Block) -> Read:
    """Return the first read of a block; one of nothing where it has none."""
    return next(iter(block_reads(b)), NOTHING)
