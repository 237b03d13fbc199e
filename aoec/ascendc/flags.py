"""Flags and cores: what orders pipes and cores, the kind of a kernel, and the index of a block as axes of the grid."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from aoec.ascendc.calls import table
from aoec.base.errors import UnsupportedError
from aoec.ir.index import evaluate
from aoec.ir.program import CrossSet, CrossWait, Program, SetFlag, Stream, WaitFlag

KINDS = {  # kernel types by product and kinds of core
    ("2201", ("aic",)): "KERNEL_TYPE_AIC_ONLY", ("2201", ("aiv",)): "KERNEL_TYPE_AIV_ONLY",
    ("2201", ("aic", "aiv")): "KERNEL_TYPE_MIX_AIC_1_",
    ("2002", ("core",)): "KERNEL_TYPE_AICORE", ("1001", ("core",)): ""}
WITH_BOTH = 2  # mode of a flag between a cube core and the vector cores of its group
FIRST_OF_SYNC_ALL = 11  # ids from here on belong to SyncAll


def pipe(name: str) -> str:
    """Return a pipe as Ascend C calls it."""
    return "FIX" if name == "FIXP" else name


def event(item: SetFlag | WaitFlag, stream: Stream, product: str) -> str:
    """Return the hardware event of a flag. Raise UnsupportedError where the product has none between these pipes."""
    pair, known = f"{pipe(item.source)}_{pipe(item.target)}", table().events.get(product, {}).get(stream.core)
    if known is not None and pair not in known:
        raise UnsupportedError(f"a flag from {item.source} to {item.target} has no HardEvent on core {stream.core} of product {product}; "
                               f"page {table().page(table().events_page)}")
    return pair


def flag(item: SetFlag | WaitFlag, stream: Stream, product: str, number: str) -> str:
    """Return the line of a flag."""
    return f"{'SetFlag' if isinstance(item, SetFlag) else 'WaitFlag'}<HardEvent::{event(item, stream, product)}>({number});"


def cross_flag(item: CrossSet | CrossWait, number: str) -> str:
    """Return the line of a flag between cores. A wait stops all pipes of its core, and the template's pipe has no effect."""
    return (f"CrossCoreSetFlag<{WITH_BOTH}, PIPE_{pipe(item.pipe)}>(static_cast<uint16_t>({number}));" if isinstance(item, CrossSet)
            else f"CrossCoreWaitFlag(static_cast<uint16_t>({number}));")


def cores(stream: Stream) -> int:
    """Return cores that a stream runs on."""
    count = 1
    for _, extent in stream.grid:
        count *= int(evaluate(extent, {}))
    return count


def kernel_type(program: Program, product: str) -> tuple[str, int]:
    """Return (the kernel type, empty where a product has no macro for it; blocks of a launch). Raise UnsupportedError for streams of no
    kernel."""
    streams = sorted(program.streams, key=lambda s: s.core)
    kinds = tuple(s.core for s in streams)
    if (product, kinds) not in KINDS:
        raise UnsupportedError(f"program {program.name} runs on cores {', '.join(kinds)}, and aoec writes kernels of product {product} for "
                               + " or ".join("+".join(k) for p, k in KINDS if p == product))
    if len(kinds) == 1:
        return KINDS[product, kinds], cores(streams[0])
    blocks, vectors = (cores(s) for s in streams)
    if vectors not in (blocks, 2 * blocks):
        raise UnsupportedError(f"program {program.name} has {vectors} vector cores and {blocks} cube cores; a kernel of both has one "
                               "or two vector cores for each cube core")
    return f"{KINDS[product, kinds]}{vectors // blocks}", blocks


def axes(stream: Stream, name: Callable[[str], str]) -> Sequence[str]:
    """Return lines that say where on the grid a block is: its index is row-major."""
    out, rest = [], 1
    for axis, extent in reversed(stream.grid):
        size = int(evaluate(extent, {}))
        value = "0" if size == 1 else "block" if rest == 1 else f"block / {rest}"
        out.append(f"const int64_t {name(axis)} = {value}{f' % {size}' if size > 1 and rest * size < cores(stream) else ''};")
        rest *= size
    return ["const int64_t block = GetBlockIdx();", *reversed(out)]
