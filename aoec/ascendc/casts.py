"""Functions of casts, comparisons and selections.

A comparison leaves a bit an element, for whole repeats, whatever its mask; a selection reads these bits one behind the other. So both are
made for as many repeats at once as the room for bits holds, and the last repeat, with fewer lanes, apart.
"""
from __future__ import annotations

from aoec.ascendc.calls import refusal, table
from aoec.ascendc.expressions import CPP_TYPES
from aoec.ascendc.function import MASKED, ROOM, Site, Writer, function, u8, u16, u32
from aoec.ascendc.vector import BARRIER, strides, unary_strides, write_repeats
from aoec.base.errors import UnsupportedError
from aoec.ir.index import DTYPES

ROUNDED = {"vfloor": "FLOOR", "vceil": "CEIL", "vrint": "RINT", "vtrunc": "TRUNC"}
ONES_BYTES, REPEAT_BITS = 32, 16  # a block of ones; bytes of bits of a repeat of 16-bit elements, the most
LEAST_BYTES, MOST_BYTES = ONES_BYTES + 32, ONES_BYTES + 256 * REPEAT_BITS


def vconv(site: Site) -> str:
    """Return a cast by the dtypes; between whole numbers of one width elements as they are."""
    dst, src = site.dtypes
    pair = f"{dst if dst != 'bool' else 'uint8'} {src if src != 'bool' else 'uint8'}"
    modes, t = table().casts[site.product], table()
    whole = {"int32", "uint32", "int64", "uint64"}
    if {dst, src} <= whole and DTYPES[dst] == DTYPES[src] and site.product == "2201":
        return write_repeats(site, "Copy({dst}, {src}, {mask}, {repeat}, params);", strides("CopyRepeatParams", site.operands, "uint16_t"),
                        "uint32_t", DTYPES[dst] // 4)
    if (dst, src, site.product) == ("int32", "int64", "2201"):
        return low_words(site)
    if site.takes_room and dst in ("int32", "fp32"):
        return of_words(site)
    if pair not in modes or dst == "bool":
        raise UnsupportedError(f"vconv (Cast) has no form from {src} to {dst} on product {site.product}; page {t.page(t.casts_page)}")
    scale = ["SetDeqScale(static_cast<half>(1.0f));"] if pair == "fp16 int32" else []
    return write_repeats(site, f"Cast({{dst}}, {{src}}, RoundMode::CAST_{modes[pair]}, {{mask}}, {{repeat}}, params);", unary_strides(site),
                         before=scale)


def low_words(site: Site) -> str:
    """Return the low words of int64, as GatherMask takes every second word: Cast would limit what is larger than an int32. What is kept
    lies one behind the other, so that it takes a call a block where the target's blocks do not."""
    def keep_words(to: str, at: str, words: str, count: str) -> str:
        seen = ".ReinterpretCast<uint32_t>()"
        return (f"GatherMask(dst[{to}]{seen}, src[{at}]{seen}, static_cast<uint8_t>(1), true, {u32(words)}, "
                f"GatherMaskParams{{{u16('src_blk')}, {u16(count)}, {u16('src_rep')}, 0}}, kept);")
    return function(site, [
        "const int64_t done = lanes == 32 ? repeat : repeat - 1;  // whole repeats", "uint64_t kept = 0;", BARRIER,
        "if (dst_blk == 1 && dst_rep == 4) {", "    if (done > 0) {", f"        {keep_words('0', '0', '64', 'done')}", "    }",
        "    if (done >= 0 && done < repeat) {", f"        {BARRIER}",
        f"        {keep_words('done * 32', 'done * src_rep * 4', '2 * lanes', '1')}", "    }", "    return;", "}",
        "for (int64_t i = 0; i < repeat; ++i) {", "    const int64_t here = i < done ? 32 : lanes;",
        "    for (int64_t b = 0; 8 * b < here; ++b) {", f"        {BARRIER}",
        "        " + keep_words("(i * dst_rep + b * dst_blk) * 8", "(i * src_rep + 2 * b * src_blk) * 4",
                          "2 * (here - 8 * b < 8 ? here - 8 * b : 8)", "1"), "    }", "}"])


WORDS_BYTES = 384  # of a repeat of 32 elements of int64: low words, high words, and what is added to these


def of_words(site: Site) -> str:
    """Return casts of int64 to int32 (its low word) or to fp32 (the sum of both words), on products whose Cast does not take int64. A low
    word with its sign bit set is a negative number, and the high word is one more. On 1001, which has no GatherMask, the scalar unit splits
    the words."""
    real, kind = site.dtypes[0] == "fp32", site.kind("dst")
    text = [f"const int64_t most = {ROOM}.GetSize() / {WORDS_BYTES} < 255 ? {ROOM}.GetSize() / {WORDS_BYTES} : 255;",
            f"LocalTensor<int32_t> low = {ROOM}.ReinterpretCast<int32_t>(), high = low[most * 32], more = low[most * 64];",
            "const int64_t done = lanes == 32 ? repeat : repeat - 1;  // whole repeats", "for (int64_t at = 0; at < repeat;) {",
            "    const int64_t count = at < done ? (done - at < most ? done - at : most) : 1;",
            "    const int64_t mask = at < done ? 32 : lanes;"]
    if site.product == "1001":
        text += [f"    {line}" for line in (
            "SetFlag<HardEvent::V_S>(0);", "WaitFlag<HardEvent::V_S>(0);",
            "LocalTensor<int32_t> words = src[at * src_rep * 4].ReinterpretCast<int32_t>();",
            "for (int64_t i = 0; i < count * mask; ++i) {",
            f"    const uint32_t word = {u32('(i / mask * src_rep + i % mask / 4 * src_blk) * 8 + i % 4 * 2')};",
            f"    const uint32_t to = {u32('i / mask * 32 + i % mask')};", "    const int32_t value = words.GetValue(word);",
            "    low.SetValue(to, value);", "    high.SetValue(to, words.GetValue(word + 1) + (value < 0 ? 1 : 0));", "}",
            "SetFlag<HardEvent::S_V>(0);", "WaitFlag<HardEvent::S_V>(0);")]
    else:
        text += [f"    {line}" for line in (
            "uint64_t kept = 0;", f"const uint32_t total = {u32('at < done ? count * 64 : lanes * 2')};", BARRIER,
            *[line for pattern, to in ((1, "low"), (2, "high"))[:1 + real] for line in (
                f"GatherMask({to}.ReinterpretCast<uint32_t>(), src[at * src_rep * 4].ReinterpretCast<uint32_t>(), "
                f"static_cast<uint8_t>({pattern}), true, total, GatherMaskParams{{{u16('src_blk')}, {u16('count')}, {u16('src_rep')}, 0}}, "
                "kept);", BARRIER)])]
    close, words = "UnaryRepeatParams{1, 1, 4, 4}", ("low", "high")
    if real:
        text += ["    LocalTensor<float> low_real = low.ReinterpretCast<float>(), high_real = high.ReinterpretCast<float>();",
                 "    LocalTensor<float> carry = more.ReinterpretCast<float>();"]
        text += [f"    {line}" for w in words for line in (
            BARRIER, f"Cast({w}_real, {w}, RoundMode::CAST_NONE, 32, {u8('count')}, {close});")]
        steps = [f"Muls(high_real, high_real, 4294967296.0f, 32, {u8('count')}, {close});"]
        if site.product != "1001":
            steps = [f"Muls(carry, low_real, -1.0f, 32, {u8('count')}, {close});", f"Maxs(carry, carry, 0.0f, 32, {u8('count')}, {close});",
                     f"Mins(carry, carry, 1.0f, 32, {u8('count')}, {close});",
                     f"Add(high_real, high_real, carry, 32, {u8('count')}, BinaryRepeatParams{{1, 1, 1, 4, 4, 4}});", *steps]
        text += [f"    {line}" for step in steps for line in (BARRIER, step)]
        last = (f"Add(dst[at * dst_rep * 8], low_real, high_real, static_cast<uint64_t>(mask), {u8('count')}, "
                f"BinaryRepeatParams{{{u8('dst_blk')}, 1, 1, {u8('dst_rep')}, 4, 4}});")
    else:
        last = (f"Or(dst[at * dst_rep * 8].ReinterpretCast<uint16_t>(), low.ReinterpretCast<uint16_t>(), low.ReinterpretCast<uint16_t>(), "
                f"static_cast<uint64_t>(2 * mask), {u8('count')}, BinaryRepeatParams{{{u8('dst_blk')}, 1, 1, {u8('dst_rep')}, 4, 4}});")
    assert kind in ("float", "int32_t")
    return function(site, [*text, f"    {BARRIER}", f"    {last}", "    at += count;", "}"])


def rounding(site: Site) -> str:
    """Return a real number as the whole one below, above, nearest or toward zero."""
    mode = f"RoundMode::CAST_{ROUNDED[site.op]}"
    return write_repeats(site, f"Cast({{dst}}, {{src}}, {mode}, {{mask}}, {{repeat}}, params);", unary_strides(site))


def write_comparison(site: Site) -> str:
    """Return a comparison and a selection by it, in parts that the room for bits holds; it begins with a block of ones."""
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
    """Return the two calls of a part that begins at repeat `at` and has `count` repeats."""
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
