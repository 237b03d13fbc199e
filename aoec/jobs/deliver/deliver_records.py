"""Schedules as lines of CANN's run-time bank: the key of each group, its tiling, and why there is none."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from aoec.base.errors import AoecError, BankError
from aoec.cann.runtime_bank import file_name, folders, line
from aoec.cann.runtime_bank_keys import Product, Window, doubt, key_of
from aoec.cann.runtime_bank_tilings import knowledge_of
from aoec.cann.seen import Seen
from aoec.ir.func.tir import Func
from aoec.ir.text.parse import parse_trace
from aoec.ir.text.show import show
from aoec.jobs.deliver.deliver_entries import Entry
from aoec.jobs.deliver.deliver_words import Said, sizes
from aoec.jobs.tune.made import measure_trace
from aoec.jobs.tune.solve import total_ticks
from aoec.search.sketches.nests import find_product, writer
from aoec.search.sketches.plan import factors
from aoec.search.sketches.sketches_matmul import is_transposed
from aoec.search.vendor.vendor_back import Delivery, Refusal, tiling_of
from aoec.search.vendor.vendor_conv_back import conv_tiling_of
from aoec.target.machine import Machine

EXACT, PREDICTED = "exact", "predicted"
TOLD = 1.05  # times that are nearer than this the model does not tell apart: its median error is 7 % (docs/fidelity.md)


SLOWER = "what a tiling can say of it is modelled more than 5 % slower than the default schedule (--all writes it)"
SLICED = "it is a slice of an operator: CANN asks for it only where an operator has these sizes itself, as in a model of that batch"
NO_WORDS = {False: "CANN's run-time bank holds tilings of matrix products and convolutions alone",
            True: "attention in one pass: CANN has a kernel of its own for it, or runs its operators one by one"}


@dataclass(frozen=True)
class Record:
    """The line of a group in the bank, or why it has none. `op`: the operator whose records it belongs to. `key`: how its key is known.
    `differs`: parts of the schedule that the tiling cannot express. `us`: modelled time of what it does express. `default_us`: the same for
    the default schedule's tiling, where that is known. `doubt`: why CANN may not ask for it at all."""

    op: str = ""
    line: str = ""
    key: str = ""
    us: float = 0.0
    default_us: float | None = None
    differs: tuple[str, ...] = ()
    doubt: str = ""
    why: str = ""


def entry_tiling(entry: Entry, trace: str, machine: Machine) -> Said:
    """Return a schedule of an entry as the vendor's tiling. Return None for what is no matrix product and no convolution."""
    mm = find_product(entry.func) if entry.func is not None else None
    if mm is None or entry.func is None or "attention" in entry.types:
        return None
    back = tiling_of if writer(entry.func, factors(mm)[0].buffer) is None else conv_tiling_of
    return back(entry.func, parse_trace(trace), machine)


def record(entry: Entry, machine: Machine, soc: str, seen: Sequence[Seen], every: bool = False, more: Sequence[str] = ()) -> Record:
    """Return the line of an entry. It is made of the entry's schedule, the default one or `more` schedules, whichever is fastest as the
    vendor's kernels read it. `seen`: the same operator as the user's CANN has it, where that is known. `every`: keep also a tiling that is
    modelled clearly slower than the default."""
    asked = [(trace, entry_tiling(entry, trace, machine)) for trace in dict.fromkeys((entry.trace, entry.default, *more)) if trace]
    if not asked or asked[0][1] is None:
        return Record(why=entry.why or NO_WORDS["attention" in entry.types])
    read = [t if isinstance(t, Refusal) else time_tiling(entry, t, machine) for _, t in asked if t is not None]
    tilings = [(us, n, t) for n, (us, t) in enumerate((0.0, r) if isinstance(r, Refusal) else r for r in read) if isinstance(t, Delivery)]
    if not tilings:
        return Record(why=next(r.why for r in read if isinstance(r, Refusal)))
    us, _, tiling = min(tilings, key=lambda x: x[:2])
    try:
        op, key = key_of(problem(entry))
        text = line(op, key, knowledge_of(problem(entry), {n: int(v) for n, v in asdict(tiling.tiling).items()}))
    except AoecError as e:
        return Record(why=str(e).splitlines()[0])
    if us > entry.default_us * TOLD and not every:
        return Record(us=us, why=SLOWER)
    if seen and not any(s.type == op for s in seen):
        return Record(why=f"your CANN runs it as {seen[0].type}, whose records are not public; those of {op} are")
    default_us = next((x for x, n, _ in tilings if asked[n][0] == entry.default), None)
    return Record(op, text, EXACT if seen else PREDICTED, us, default_us, tiling.differs,
                  "" if seen else "; ".join(filter(None, (doubt(op, soc), SLICED * entry.sliced))))


def time_tiling(entry: Entry, tiling: Delivery, machine: Machine) -> tuple[float, Delivery] | Refusal:
    """Return the modelled time of the schedule that the vendor's kernels make of a tiling; a refusal where that is none of this
    machine's."""
    assert entry.func is not None
    try:
        ticks = total_ticks(measure_trace(entry.func, show(tiling.trace), machine, entry.state), machine)
    except AoecError as e:
        why = str(e).splitlines()[0].removeprefix(f"program {entry.func.name}: ")
        return Refusal(f"as the vendor's kernels would read its tiling it is not legal here: {why}")
    return ticks * machine.us_per_tick, tiling


def problem(entry: Entry) -> Product | Window:
    """Return what an entry's key is made of. Raise BankError where a func alone does not say it."""
    assert entry.func is not None
    mm = find_product(entry.func)
    assert mm is not None
    return _product(entry.func) if writer(entry.func, factors(mm)[0].buffer) is None else _window(entry)


def _product(func: Func) -> Product:
    mm = find_product(func)
    assert mm is not None
    a, b = factors(mm)
    *_, m, _, k = [loop.var for loop in mm.loops]
    p, left, right, out = sizes(func), func.buffer(a.buffer), func.buffer(b.buffer), func.outputs[0]
    return Product(p.m, p.k, p.n, left.dtype, out.dtype if out.dtype != left.dtype else "", is_transposed(a, m), is_transposed(b, k),
                   p.bias, left.layout == "NZ", right.layout == "NZ")


def _window(entry: Entry) -> Window:
    if not entry.shapes:
        raise BankError("a bank does not say the strides and pads of a convolution: deliver the model itself")
    attributes, (n, c, h, w), out = dict(entry.attributes), entry.shapes[0], entry.shapes[-1]
    kh, kw = _pair(attributes, "kernel", ())
    top, left, bottom, right = _pair(attributes, "pad", (0, 0, 0, 0))
    func = entry.func
    assert func is not None
    dtype, result = func.inputs[0].dtype, func.outputs[0].dtype
    return Window(n, c, h, w, out[1], kh, kw, _pair(attributes, "stride", (1, 1)), (top, bottom, left, right),  # type: ignore[arg-type]
                  _pair(attributes, "dilation", (1, 1)), int(str(attributes.get("group", 1))), sizes_bias(func), dtype,  # type: ignore[arg-type]
                  result if result != dtype else "")


def sizes_bias(func: Func) -> bool:
    """Return whether a func adds a bias."""
    return any(b.name == "bias" for b in func.inputs)


def _pair(attributes: Mapping[str, object], name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = attributes.get(name, default)
    if not isinstance(value, tuple) or not value:
        raise BankError(f"the convolution has no attribute {name}")
    return tuple(int(v) for v in value)


def once(found: Iterable[tuple[Entry, Record]]) -> list[tuple[Entry, Record]]:
    """Return the records with each key once, that of most time: CANN's loader keeps the first of equal keys."""
    pairs, kept = list(found), dict[str, str]()
    for entry, r in sorted(pairs, key=lambda pair: -pair[0].all_us):
        if r.line:
            kept.setdefault(_identity(r), entry.name)
    return [(e, r if not r.line or kept[_identity(r)] == e.name else replace(
        r, line="", why=f"its key is that of {kept[_identity(r)]}, whose tiling is written", op="", key="")) for e, r in pairs]


def _identity(r: Record) -> str:
    return r.line[:r.line.index('"knowledge"')]


def files(records: Iterable[Record], soc: str, cores: int) -> dict[str, str]:
    """Return the bank's files of both generations by their place in the folder. They are below `bank` as in $TUNE_BANK_PATH, and below
    `home` as in the home directory."""
    lines: dict[str, list[str]] = {}
    for r in records:
        if r.line:
            lines.setdefault(r.op, []).append(r.line)
    tune, *home = folders(soc)
    places = [f"bank/{tune}", *(f"home/{folder}" for folder in home)]
    return {f"{place}/{file_name(soc, cores, op)}": "".join(f"{x}\n" for x in listed) for op, listed in lines.items() for place in places}
