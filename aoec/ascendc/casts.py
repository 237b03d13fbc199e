"""Functions of casts, comparisons and selections.

A comparison leaves a bit an element, for whole repeats, whatever its mask; a selection reads these bits one behind the other. So both are
made for as many repeats at once as the room for bits holds, and the last repeat, with fewer lanes, apart.
"""
from __future__ import annotations

from aoec.ascendc.calls import refusal, table
from aoec.ascendc.expressions import CPP_TYPES
from aoec.ascendc.function import MASKED, ROOM, Site, Writer, function, u8
from aoec.ascendc.vector import BARRIER, strides, unary_strides, write_repeats
from aoec.base.errors import UnsupportedError
from aoec.ir.index import DTYPES

ROUNDED = {"vfloor": "FLOOR", "vceil": "CEIL", "vrint": "RINT", "vtrunc": "TRUNC"}
ONES_BYTES, REPEAT_BITS = 32, 16  # a block of ones; bytes of bits of a repeat of 16-bit elements, the most
LEAST_BYTES, MOST_BYTES = ONES_BYTES + 32, ONES_BYTES + 256 * REPEAT_BITS


def vconv(site: Site) -> str:
    """A cast by the dtypes; between whole numbers of one width elements as they are."""
    dst, src = site.dtypes
    pair = f"{dst if dst != 'bool' else 'uint8'} {src if src != 'bool' else 'uint8'}"
    modes, t = table().casts[site.product], table()
    whole = {"int32", "uint32", "int64", "uint64"}
    if {dst, src} <= whole and DTYPES[dst] == DTYPES[src] and site.product == "2201":
        return write_repeats(site, "Copy({dst}, {src}, {mask}, {repeat}, params);", strides("CopyRepeatParams", site.operands, "uint16_t"),
                        "uint32_t", DTYPES[dst] // 4)
    if pair not in modes or dst == "bool":
        raise UnsupportedError(f"vconv (Cast) has no form from {src} to {dst} on product {site.product}; page {t.page(t.casts_page)}")
    scale = ["SetDeqScale(static_cast<half>(1.0f));"] if pair == "fp16 int32" else []
    return write_repeats(site, f"Cast({{dst}}, {{src}}, RoundMode::CAST_{modes[pair]}, {{mask}}, {{repeat}}, params);", unary_strides(site),
                         before=scale)


def rounding(site: Site) -> str:
    """A real number as the whole one below, above, nearest or toward zero."""
    mode = f"RoundMode::CAST_{ROUNDED[site.op]}"
    return write_repeats(site, f"Cast({{dst}}, {{src}}, {mode}, {{mask}}, {{repeat}}, params);", unary_strides(site))


def write_comparison(site: Site) -> str:
    """A comparison and a selection by it, in parts that the room for bits holds; it begins with a block of ones."""
    if len({DTYPES[d] for d in site.dtypes}) > 1:
        raise UnsupportedError(f"{site.op} (Compare, Select) takes elements of one width; it has {', '.join(site.dtypes)}")
    if site.dtypes[1] not in ("fp16", "fp32"):
        raise refusal(site.op, site.product, f"Compare takes fp16 and fp32, and not {site.dtypes[1]}")
    compare, select = _calls(site)
    part, kind = [f"const int64_t most = ({ROOM}.GetSize() - {ONES_BYTES}) / {site.lanes // 8};",
                  f"LocalTensor<uint8_t> bits = {ROOM}[{ONES_BYTES}];"], site.kind("dst")
    if site.op in ("vcmp", "vcmps"):
        part += [f"LocalTensor<{kind}> ones = {ROOM}.ReinterpretCast<{kind}>();", BARRIER,
                 f"Duplicate(ones, static_cast<{kind}>(1.0f), {ONES_BYTES // site.size('dst')}, 1, 1, 8);"]
    part += [f"const int64_t done = lanes == {site.lanes} ? repeat : repeat - 1;  // whole repeats",
             "for (int64_t at = 0; at < repeat;) {",
             "    const int64_t count = at < done ? (done - at < most ? done - at : most) : 1;",
             f"    const uint64_t mask = at < done ? {site.lanes} : lanes;",
             f"    {BARRIER}", f"    {compare}", f"    {BARRIER}", f"    {select}", "    at += count;", "}"]
    return function(site, part)


def _calls(site: Site) -> tuple[str, str]:
    """The two calls of a part that begins at repeat `at` and has `count` repeats."""
    moved = {o: f"{o}[at * {o}_rep * {site.block(o)}]" for o in site.operands}
    by_number, whole, count = site.release.scalar_compare, site.lanes, u8("count")
    zero = f"static_cast<{CPP_TYPES[site.dtypes[1]]}>(0.0f)"

    def blocks(*names: str) -> str:
        return ", ".join([u8(f"{n}_blk") if n else "0" for n in names] + [u8(f"{n}_rep") if n else "0" for n in names])
    if site.op == "vcmp":
        compare = (f"Compare(bits, {moved['src0']}, {moved['src1']}, mode, {whole}, {count}, "
                   f"BinaryRepeatParams{{1, {u8('src0_blk')}, {u8('src1_blk')}, 8, {u8('src0_rep')}, {u8('src1_rep')}}});")
    else:
        of, mode, with_it = ("src", "mode", "scalar") if site.op == "vcmps" else ("src0", "CMPMODE::NE", zero)
        compare = (f"{by_number}(bits, {moved[of]}, {with_it}, {mode}, {whole}, {count}, "
                   f"UnaryRepeatParams{{1, {u8(f'{of}_blk')}, 8, {u8(f'{of}_rep')}}});")
    if site.op == "vsel":
        real = "" if site.dtypes[0] in ("fp16", "fp32") else f".ReinterpretCast<{'half' if site.size('dst') == 2 else 'float'}>()"
        moved = {o: f"{text}{real if o != 'src0' else ''}" for o, text in moved.items()}
        select = (f"Select({moved['dst']}, bits, {moved['src1']}, {moved['src2']}, SELMODE::VSEL_TENSOR_TENSOR_MODE, mask, {count}, "
                  f"BinaryRepeatParams{{{blocks('dst', 'src1', 'src2')}}});")
    elif site.op == "vsels":
        select = (f"Select({moved['dst']}, bits, {moved['src1']}, scalar, SELMODE::VSEL_TENSOR_SCALAR_MODE, mask, {count}, "
                  f"BinaryRepeatParams{{{blocks('dst', 'src1', '')}}});")
    else:
        select = (f"Select({moved['dst']}, bits, ones, static_cast<{site.kind('dst')}>(0.0f), SELMODE::VSEL_TENSOR_SCALAR_MODE, mask, "
                  f"{count}, BinaryRepeatParams{{{blocks('dst', '', '')}}});")
    return compare, select


FUNCTIONS: dict[str, Writer] = {"vconv": vconv, **dict.fromkeys(ROUNDED, rounding), **dict.fromkeys(MASKED, write_comparison)}
