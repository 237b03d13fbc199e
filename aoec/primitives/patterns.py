"""Recognises what instructions compute in blocks. The same matchers serve `tensorize` (is it legal?) and emission (what are the fields?).

A matcher takes a func, one of its blocks and the tensor loops around it, and returns a record. A ScheduleError says what does not fit.
Indices are compared in normal form, so a block is recognised before and after its holes are filled. Loops of extent 1 are left out of the
record: their variables are 0 in its reads, and a role that has no loop is named "".
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from aoec.base.errors import ScheduleError
from aoec.ir.func.pixels import pixels_of
from aoec.ir.func.regions import lift, same
from aoec.ir.func.scaling import Scaled, match_scale
from aoec.ir.func.tir import Block, Func, Loop
from aoec.ir.index import Binary, Call, Cast, Expr, Float, Int, Read, Var, affine, is_zero, normalise, reads, substitute, variables
from aoec.target.isa.words import is_selection, vector_op

Path = Sequence[Loop]


@dataclass(frozen=True, slots=True)
class Copy:
    """`target = source`; with a guard, `otherwise` where one of the conditions `guards` is false."""

    target: Read
    source: Read
    guards: tuple[Expr, ...] = ()
    otherwise: Expr | None = None


@dataclass(frozen=True, slots=True)
class Mmad:
    """`c[m.., n] += a[m.., k] * b[k, n]`, or with a[k, m] in NN or b[n, k] in NZ, from `init` on.

    `rows` are the m loops in the order of c's dimensions.
    """

    c: Read
    a: Read
    b: Read
    rows: tuple[str, ...]
    column: str
    depth: str
    init: Expr | None


@dataclass(frozen=True, slots=True)
class Result:
    """A result of the cube on its way out, in the target's dtype: L0C -> GM (fixpipe), L0C -> UB (drain), UB -> UB (epilogue: with a
    bias added to each column), UB -> GM (store).

    c0 is 0 for rows x columns (nd); else the target is [.., column//c0, rows.., column%c0] (nz). fixpipe and epilogue may scale sums
    to int8, by a number for each column.
    """

    target: Read
    source: Read
    rows: tuple[str, ...]
    column: str
    relu: bool
    c0: int
    bias: Read | None = None
    scaled: Scaled | None = None


@dataclass(frozen=True, slots=True)
class Load3d:
    """img2col from an image [.., channel/c0, h, w, c0] in L1: position (h, w), column k = ((channel/c0)*KH + kh)*KW + kw)*c0 + channel%c0.

    `row` and `col` are the image coordinates that position 0 of the tile reads for kh = kw = 0 (negative: padding);
    `k_start` is the first k, counted from the first channel in L1. Loop names are "" where the tile is one wide there.
    """

    target: Read
    source: Read
    h_loop: str
    w_loop: str
    k_loop: str
    row: Expr
    col: Expr
    k_start: Expr
    stride: tuple[int, int]
    dilation: tuple[int, int]
    filter: tuple[int, int]
    c0: int


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector operation: `op` is the instruction's name, `operands` what it reads. Where it reduces, either the last dimension of
    the operand is reduced (vcadd, vcmax, vcmin), or the target is also an operand (vadd, vmax, vmin)."""

    op: str
    target: Read
    operands: tuple[Read, ...]
    scalar: float | None = None


def without_units(block: Block, loops: Path) -> tuple[Block, frozenset[str]]:
    """Return the block with loops of extent 1 at 0, and the names of the other loops."""
    units = {x.var: Int(0) for x in loops if x.extent == Int(1)}

    def still(e: Expr) -> Expr:
        return substitute(e, units)
    target = still(block.target)
    assert isinstance(target, Read)
    init = None if block.init is None else still(block.init)
    return replace(block, target=target, value=still(block.value), init=init), frozenset(x.var for x in loops) - units.keys()


def conjuncts(e: Expr) -> list[Expr]:
    """Return the conditions that `and` joins."""
    return conjuncts(e.left) + conjuncts(e.right) if isinstance(e, Binary) and e.op == "and" else [e]


def _scope(func: Func, block: Block, read: Read, *scopes: str) -> None:
    found = func.buffer(read.buffer).scope
    if found not in scopes:
        raise ScheduleError(f"{block.name} touches {read.buffer} in {found}, not in {' or '.join(scopes)}; "
                            "use cache_read, cache_write or set_scope")


def _single(i: Expr, names: frozenset[str], what: str) -> str:
    """Return the one loop of an index base + loop. Return "" where none of `names` is in it."""
    inside = sorted(variables(i) & names)
    if not inside:
        return ""
    parts = affine(i, frozenset(inside))
    if len(inside) > 1 or parts is None or parts[0].get(inside[0]) != Int(1):
        raise ScheduleError(f"{what} is not a plain loop of the instruction")
    return inside[0]


def _uncast(e: Expr) -> Expr:
    return _uncast(e.value) if isinstance(e, Cast) else e


# ---------------------------------------------------------------- copy, mmad, results

def match_copy(func: Func, block: Block, loops: Path) -> Copy:
    """Return a copy, perhaps guarded by a select with a constant where there is nothing to read; to GM it may add to what is there."""
    block, names = without_units(block, loops)
    walked = {v for i in block.target.indices for v in variables(i)}
    adds = block.op == "+=" and func.buffer(block.target.buffer).scope == "GM" and names <= walked
    if block.op != "=" and not adds:
        raise ScheduleError(f"{block.name} is no copy: it accumulates")
    value, otherwise = block.value, None
    guards: tuple[Expr, ...] = ()
    if isinstance(value, Call) and value.fn == "select" and isinstance(value.args[2], (Float, Int)) and not is_selection(value):
        guards, otherwise, value = tuple(conjuncts(value.args[0])), value.args[2], value.args[1]
    if not isinstance(value, Read):
        raise ScheduleError(f"{block.name} is no copy: it computes; it may be a vector operation")
    if func.buffer(value.buffer).dtype != func.buffer(block.target.buffer).dtype:
        raise ScheduleError(f"{block.name} is no copy: {value.buffer} and {block.target.buffer} have different dtypes")
    return Copy(block.target, value, guards, otherwise)


def match_mmad(func: Func, block: Block, loops: Path) -> Mmad:
    """Return a matrix product of L0A and L0B into L0C."""
    block, names = without_units(block, loops)
    value = block.value
    if block.op != "+=" or not (isinstance(value, Binary) and value.op == "*"):
        raise ScheduleError(f"{block.name} is no mmad: it is not target += a * b")
    a, b = _uncast(value.left), _uncast(value.right)
    if not (isinstance(a, Read) and isinstance(b, Read)):
        raise ScheduleError(f"{block.name} is no mmad: a factor is not a plain read")
    for read, scope in ((block.target, "L0C"), (a, "L0A"), (b, "L0B")):
        _scope(func, block, read, scope)
    target, left, right = ([_single(i, names, f"an index of {r.buffer}") for i in r.indices] for r in (block.target, a, b))
    left, right = _upright(func, a, left), _upright(func, b, right)
    rows, column, depth = tuple(v for v in target[:-1] if v), target[-1], left[-1]
    fits = tuple(v for v in left[:-1] if v) == rows and [v for v in right[:-1] if v] == [depth] * bool(depth) and right[-1] == column
    roles = [v for v in (*rows, column, depth) if v]
    if not fits or len(set(roles)) != len(roles) or names != set(roles):
        raise ScheduleError(f"{block.name} is no mmad: its loops are not c[m.., n] += a[m.., k] * b[k, n]")
    return Mmad(block.target, a, b, rows, column, depth, block.init)


def _upright(func: Func, read: Read, loops: list[str]) -> list[str]:
    """Return the loops of an operand as a[m.., k] or b[k, n]: where its layout says that it is held transposed, the last two change
    places."""
    return [*loops[:-2], loops[-1], loops[-2]] if func.buffer(read.buffer).layout in ("NN", "NZ") else loops


def match_result(word: str, source: str, target: str, func: Func, block: Block, loops: Path) -> Result:
    """Return a result on its way out: `fixpipe` and `drain` do relu and a cast, `epilogue` adds a bias too, `store` nothing. `fixpipe` and
    `epilogue` scale sums."""
    block, names = without_units(block, loops)
    wide = match_scale(block.value) if word in ("fixpipe", "epilogue") else None
    value, relu, bias = _steps(replace(block, value=wide.sums) if wide else block, word)
    if block.op not in ("=", "+=") or block.op == "+=" and (word != "fixpipe" or relu):
        raise ScheduleError(f"{block.name} is no {word}: it accumulates")
    scales = wide.scale if wide else None
    beside = [(read, scope) for read, scope in ((bias, "UB"), (scales, "FB" if word == "fixpipe" else "UB")) if read is not None]
    for read, scope in ((value, source), (block.target, target), *beside):
        _scope(func, block, read, scope)
    places = [_single(i, names, f"an index of {value.buffer}") for i in value.indices]
    rows, column = tuple(v for v in places[:-1] if v), places[-1]
    for vector, _ in beside:
        if [_single(i, names, f"an index of {vector.buffer}") for i in vector.indices] != [column]:
            raise ScheduleError(f"{block.name} is no {word}: {vector.buffer} is not a vector along its columns")
    return Result(block.target, value, rows, column, relu, _split_c0(func, block, word, rows, column), bias, wide)


def _steps(block: Block, word: str) -> tuple[Read, bool, Read | None]:
    """Return (result that is read, relu, bias) of a block that does no more to a result than `word` can."""
    value, relu = block.value, False
    bias: Read | None = None
    if word == "epilogue" and isinstance(value, Call) and value.fn == "select" and not is_selection(value):
        value = value.args[1]  # a number behind the last column
    while not isinstance(value, Read):
        if isinstance(value, Cast) and word != "store":
            value = value.value
        elif not relu and word != "store" and _is_relu(value):
            assert isinstance(value, Call)
            value, relu = value.args[0], True
        elif bias is None and word == "epilogue" and isinstance(value, Binary) and value.op == "+" and isinstance(value.right, Read):
            bias, value = value.right, value.left
        else:
            does = {"store": "nothing", "epilogue": "the addition of a bias, relu and a cast"}.get(word, "relu and a cast, nothing else")
            raise ScheduleError(f"{block.name} is no {word}: it does {does}")
    return value, relu, bias


def _is_relu(e: Expr) -> bool:
    """Return whether `e` is the greater of something and the real 0."""
    return isinstance(e, Call) and e.fn == "max" and len(e.args) == 2 and is_zero(e.args[1])


def _loops(indices: Sequence[Expr], names: frozenset[str]) -> tuple[str, ...]:
    """Return the loops that run over the indices, in order."""
    return tuple(v for v in (_single(i, names, "an index of the target") for i in indices) if v)


def _split_c0(func: Func, block: Block, word: str, rows: tuple[str, ...], column: str) -> int:
    """Return 0 where the column is the last index. Return C0 where it is split into quotient and remainder, with the remainder last."""
    names, last = frozenset({*rows, column}), normalise(block.target.indices[-1])
    lead = block.target.indices[:-1]
    if not (isinstance(last, Binary) and last.op == "%"):
        if _loops(lead, names) != rows or _single(last, names, "the column") != column:
            raise ScheduleError(f"{block.name} is no {word}: rows and columns of {block.target.buffer} are not those of the source")
        return 0
    assert isinstance(last.right, Int)
    c0 = last.right.value
    plain = [i for i in lead if column not in variables(i)]
    split = [i for i in lead if column in variables(i)]
    quotient = normalise(Var(column) // c0)
    if not same(last, Var(column) % c0) or len(split) != 1 or column in variables(normalise(split[0] - quotient)):
        raise ScheduleError(f"{block.name} is no {word}: its channels are not in whole groups of {c0}; tile them in multiples of {c0}")
    if _loops(plain, names) != rows:
        raise ScheduleError(f"{block.name} is no {word}: the rows of {block.target.buffer} are not those of the source")
    return c0


# ---------------------------------------------------------------- load3d

def match_load3d(func: Func, block: Block, loops: Path) -> Load3d:
    """Return an img2col load from L1 to L0A."""
    block, names = without_units(block, loops)
    copy = match_copy(func, block, loops)
    _scope(func, block, copy.source, "L1")
    _scope(func, block, copy.target, "L0A")
    narrow = func.buffer(copy.source.buffer).dtype == "int8"
    padding = copy.otherwise.value if isinstance(copy.otherwise, (Float, Int)) else 0
    if padding and not (narrow and padding in range(-128, 128)):
        raise ScheduleError(f"{block.name} is no load3d: it pads with something else than 0.0, or of int8 a number of int8")
    if len(copy.target.indices) < 3 or len(copy.source.indices) < 4:
        raise ScheduleError(f"{block.name} is no load3d: it does not go from [.., channel, h, w, c0] to [.., h, w, k]")
    h, w, k = (_single(i, names, f"an index of {copy.target.buffer}") for i in copy.target.indices[-3:])
    if not k or names != {h, w, k} - {""}:
        raise ScheduleError(f"{block.name} is no load3d: its loops are not those of two positions and k")
    found = _img2col(block, copy, h, w, k)
    _check_guards(block, copy, names)
    return found


def _img2col(block: Block, copy: Copy, h: str, w: str, k: str) -> Load3d:
    channel, high, wide, low = (normalise(i) for i in copy.source.indices[-4:])
    row, stride_h, dilation_h, filter_h = _position(block, high, h, k)
    col, stride_w, dilation_w, filter_w = _position(block, wide, w, k)
    if not (isinstance(low, Binary) and low.op == "%" and isinstance(low.right, Int)):
        raise ScheduleError(f"{block.name} is no load3d: the last index of {copy.source.buffer} is not k % c0")
    c0 = low.right.value
    area = filter_h * filter_w * c0
    k_start = _k_start(block, channel, k, area)
    kk = k_start + Var(k)
    want = (kk // area, _at(row, h, stride_h) + kk // (filter_w * c0) % filter_h * dilation_h,
            _at(col, w, stride_w) + kk // c0 % filter_w * dilation_w, kk % c0)
    if not all(same(a, b) for a, b in zip(want, (channel, high, wide, low))):
        raise ScheduleError(f"{block.name} is no load3d: k does not run over channel/c0, kh, kw, c0 of {copy.source.buffer}")
    return Load3d(copy.target, copy.source, h, w, k, row, col, k_start, stride=(stride_h, stride_w), dilation=(dilation_h, dilation_w),
                  filter=(filter_h, filter_w), c0=c0)


def _at(start: Expr, loop: str, stride: int) -> Expr:
    return start + Var(loop) * stride if loop else start


def _position(block: Block, i: Expr, loop: str, k: str) -> tuple[Expr, int, int, int]:
    """Return (start, stride, dilation, filter size) of an image coordinate start + loop*stride + (..k.. % size)*dilation."""
    atoms: dict[str, Expr] = {}
    names = frozenset({loop, k} - {""})
    parts = affine(lift(i, names, atoms), names | atoms.keys())
    fits = parts is not None and k not in parts[0] and len(atoms) <= 1
    tap = next(iter(atoms.values()), None)
    if not fits or (tap is not None and not (isinstance(tap, Binary) and tap.op == "%" and isinstance(tap.right, Int))):
        raise ScheduleError(f"{block.name} is no load3d: an image coordinate is not position * stride + tap * dilation - padding")
    assert parts is not None
    numbers = [parts[0].get(name, Int(1)) for name in (loop, *atoms)]
    if not all(isinstance(n, Int) for n in numbers):
        raise ScheduleError(f"{block.name} is no load3d: stride and dilation are not plain numbers")
    stride, dilation = numbers[0].value, numbers[1].value if atoms else 1  # type: ignore[attr-defined]
    return parts[1], stride, dilation, tap.right.value if isinstance(tap, Binary) else 1  # type: ignore[attr-defined]


def _k_start(block: Block, channel: Expr, k: str, area: int) -> Expr:
    """Return the first k of the tile, from the channel index base + (first + k) // area."""
    atoms: dict[str, Expr] = {}
    parts = affine(lift(channel, frozenset({k}), atoms), frozenset({k}) | atoms.keys())
    quotient = next(iter(atoms.values()), None)
    if parts is None or len(atoms) != 1 or not (isinstance(quotient, Binary) and quotient.op == "//" and quotient.right == Int(area)):
        raise ScheduleError(f"{block.name} is no load3d: the channel index is not k // {area}")
    first = affine(quotient.left, frozenset({k}))
    if first is None or first[0] != {k: Int(1)}:
        raise ScheduleError(f"{block.name} is no load3d: k is not a plain loop of the instruction")
    return normalise(parts[1] * area + first[1])


def _check_guards(block: Block, copy: Copy, names: frozenset[str]) -> None:
    """Raise ScheduleError unless every guard speaks of the image coordinates that are read."""
    coordinates = copy.source.indices[-3:-1]
    for guard in copy.guards:
        known = isinstance(guard, Binary) and guard.op in ("<", "<=", ">", ">=")
        gap = guard.left - guard.right if known else Int(0)  # type: ignore[attr-defined]
        still = [not variables(normalise(g)) & names for i in coordinates for g in (gap - i, gap + i)]
        if not known or not any(still):
            raise ScheduleError(f"{block.name} is no load3d: it is guarded by something else than the image's bounds")


# ---------------------------------------------------------------- vector

REDUCE = {"+=": ("vcadd", "vadd"), "max=": ("vcmax", "vmax"), "min=": ("vcmin", "vmin")}


def match_vector(func: Func, block: Block, loops: Path) -> Vector:
    """Return one vector operation on buffers in UB."""
    block, _ = without_units(block, loops)
    value = block.value
    if isinstance(value, Cast) and value.dtype == func.buffer(block.target.buffer).dtype and not isinstance(value.value, Read):
        value = value.value  # the store rounds to that dtype anyway
    found = _accumulation(block, value) if block.op != "=" else _gather(value, block) or _operation(func, block, value)
    if (made := pixels_of(block)) is not None:
        found = Vector("vnchwconv", made.target, (made.source,))
    if found is None:
        raise ScheduleError(f"{block.name} is no single vector operation; compute each operation in a block of its own")
    for read in (block.target, *found.operands):
        _scope(func, block, read, "UB")
    return found


def match_padded(func: Func, block: Block, loops: Path) -> Vector:
    """Return one vector operation, element by element, on whole tiles in UB that lie alike, with what pads their rows."""
    found = match_vector(func, block, loops)
    shapes = {tuple(map(normalise, func.buffer(r.buffer).shape)) for r in (block.target, *found.operands)}
    if block.op != "=" or len(shapes) > 1 or any(r.indices != found.target.indices for r in found.operands):
        raise ScheduleError(f"{block.name} is not padded: what it reads does not lie as what it makes, element by element")
    return found


def _accumulation(block: Block, value: Expr) -> Vector | None:
    if not isinstance(value, Read):
        return None
    whole, pairwise = REDUCE[block.op]
    named = frozenset().union(*[variables(i) for i in block.target.indices])
    if variables(value.indices[-1]) <= named:
        return Vector(pairwise, block.target, (value,))
    return Vector(whole, block.target, (value,))


def _gather(value: Expr, block: Block) -> Vector | None:
    """Return what reads where an index says."""
    found = [r for i in value.indices for r in reads(i)] if isinstance(value, Read) else []
    return Vector("vgather", block.target, (value, *found)) if isinstance(value, Read) and found else None


def _operation(func: Func, block: Block, value: Expr) -> Vector | None:
    kind = func.buffer(block.target.buffer).dtype
    if isinstance(value, Cast) and value.dtype != kind:
        return None
    found = vector_op(value, any(func.buffer(r.buffer).dtype != kind for r in reads(value)))
    return Vector(found.name, block.target, found.sources, found.scalar) if found else None


MATCHERS: dict[str, Callable[[Func, Block, Path], object]] = {
    "copy": match_copy, "mmad": match_mmad, "load3d": match_load3d, "vector": match_vector, "padded": match_padded,
    "fixpipe": partial(match_result, "fixpipe", "L0C", "GM"), "drain": partial(match_result, "drain", "L0C", "UB"),
    "epilogue": partial(match_result, "epilogue", "UB", "UB"), "store": partial(match_result, "store", "UB", "GM")}
