"""Functions of vector instructions in the sliced form of the calls: (targets and sources, mask, repeats, strides).

The mask of a call counts for each of its repeats, so that an instruction whose last repeat has fewer lanes is two calls. Each call waits
for the vector pipe: its order is that of the program, and nothing else keeps two vector instructions in order.
"""
from __future__ import annotations

from collections.abc import Sequence

from aoec.ascendc.calls import refusal
from aoec.ascendc.function import ROOM, Site, Writer, function, u8, u16, u32
from aoec.target.isa.instructions import REPEAT_BYTES

BINARY = {"vadd": "Add", "vsub": "Sub", "vmul": "Mul", "vdiv": "Div", "vmax": "Max", "vmin": "Min", "vaddrelu": "AddRelu",
          "vaddreluconv": "AddReluCast"}
SCALAR = {"vadds": "Adds", "vmuls": "Muls", "vmaxs": "Maxs", "vmins": "Mins"}
UNARY = {"vexp": "Exp", "vln": "Ln", "vsqrt": "Sqrt", "vrsqrt": "Rsqrt", "vrec": "Reciprocal", "vabs": "Abs", "vrelu": "Relu"}
TURNABLE = ("vadd", "vmul", "vmax", "vmin", "vaddrelu")  # instructions whose two sources may change places
BARRIER = "PipeBarrier<PIPE_V>();"
BLOCKS = 8  # of a repeat


def write_repeats(site: Site, call: str, params: str = "", views: str = "", factor: int = 1, steps: Sequence[str] = (),
             before: Sequence[str] = ()) -> str:
    """Return a function that makes `call` once for whole repeats and once for the lanes of the last.

    `call`: with {dst}, {src}.. for operands, {mask} and {repeat}. `params`, `before`: lines before it. `views`: a type that operands are
    seen as, of which `factor` make an element, or one makes two bytes. `steps`: how far each operand moves on in a repeat, in elements (by
    its stride in blocks if not given).
    """
    moves = steps or [f"{o}_rep * {site.block(o)}" for o in site.operands]
    seen = f".ReinterpretCast<{views}>()" if views else ""
    first = {o: f"{o}{seen}" for o in site.operands}
    last = {o: f"{o}[done * {step}]{seen}" for o, step in zip(site.operands, moves)}
    most, lanes = site.lanes * factor, f"lanes * {factor}" if factor > 1 else "lanes"
    if views and all(site.size(o) == 1 for o in site.operands):
        most, lanes = site.lanes // 2, "lanes / 2"
    text = [f"const int64_t done = lanes == {site.lanes} ? repeat : repeat - 1;  // whole repeats", *([params] if params else []),
            *before, BARRIER, "if (done > 0) {", f"    {call.format(**first, mask=most, repeat=u8('done'))}", "}",
            "if (done >= 0 && done < repeat) {", f"    {BARRIER}",
            f"    {call.format(**last, mask=f'static_cast<uint64_t>({lanes})', repeat='1')}", "}"]
    return function(site, text)


def strides(kind: str, names: Sequence[str], cast: str = "uint8_t") -> str:
    """Return a line with the strides of a call: of blocks for each operand, then of repeats."""
    fields = [f"static_cast<{cast}>({n}_{what})" for what in ("blk", "rep") for n in names]
    return f"const {kind} params{{{', '.join(fields)}}};"


def binary_strides(site: Site) -> str:
    """Return the strides of a call of two sources."""
    return strides("BinaryRepeatParams", site.operands)


def unary_strides(site: Site) -> str:
    """Return the strides of a call of one source."""
    return strides("UnaryRepeatParams", site.operands)


def binary(site: Site) -> str:
    """Return calls of dst = src0 op src1."""
    return write_repeats(site, f"{BINARY[site.op]}({{dst}}, {{src0}}, {{src1}}, {{mask}}, {{repeat}}, params);", binary_strides(site))


def by_block(site: Site, call: str, value: str) -> str:
    """Return calls of dst = src op a number. The number fills a block, which is the second source of every block."""
    kind, elements = site.kind("src"), site.block("src")
    params = (f"const BinaryRepeatParams params{{{u8('dst_blk')}, {u8('src_blk')}, 0, {u8('dst_rep')}, {u8('src_rep')}, 0}};")
    return write_repeats(site, f"{call}({{dst}}, {{src}}, number, {{mask}}, {{repeat}}, params);", params,
                    before=[f"LocalTensor<{kind}> number = {ROOM}.ReinterpretCast<{kind}>();", BARRIER,
                            f"Duplicate(number, {value}, {elements}, 1, 1, 8);"])


def with_number(site: Site) -> str:
    """Return calls of dst = src op a number. On 1001 there is no Maxs and no Mins."""
    if site.takes_room:
        return by_block(site, "Max" if site.op == "vmaxs" else "Min", "scalar")
    return write_repeats(site, f"{SCALAR[site.op]}({{dst}}, {{src}}, scalar, {{mask}}, {{repeat}}, params);", unary_strides(site))


def unary(site: Site) -> str:
    """Return calls of dst = op(src). On 1001 Relu takes no fp32."""
    if site.takes_room:
        return by_block(site, "Max", f"static_cast<{site.kind('src')}>(0.0f)")
    return write_repeats(site, f"{UNARY[site.op]}({{dst}}, {{src}}, {{mask}}, {{repeat}}, params);", unary_strides(site))


def vcopy(site: Site) -> str:
    """Return elements as they are: of 8 bytes as two of 4, bytes two by two. On 2002 and 1001 a product by 1."""
    if site.product != "2201":
        one = f"static_cast<{site.kind('src')}>(1.0f)"
        return write_repeats(site, f"Muls({{dst}}, {{src}}, {one}, {{mask}}, {{repeat}}, params);", unary_strides(site))
    views, factor = {1: ("uint16_t", 1), 8: ("uint32_t", 2)}.get(site.size("dst"), ("", 1))
    params = strides("CopyRepeatParams", site.operands, "uint16_t")
    return write_repeats(site, "Copy({dst}, {src}, {mask}, {repeat}, params);", params, views, factor)


def vdup(site: Site) -> str:
    """Return one number: of 8 bytes as two of 4, which are alike (kernel.py sees to it), bytes two by two."""
    rest = f"{{mask}}, {{repeat}}, {u16('dst_blk')}, {u8('dst_rep')});"
    if site.size("dst") == 8:
        return write_repeats(site, f"Duplicate({{dst}}, static_cast<uint32_t>(scalar), {rest}", views="uint32_t", factor=2)
    if site.size("dst") == 1:
        pair = "const uint16_t pair = static_cast<uint16_t>(static_cast<uint8_t>(scalar) * 257);"
        return write_repeats(site, f"Duplicate({{dst}}, pair, {rest}", pair, "uint16_t")
    return write_repeats(site, f"Duplicate({{dst}}, scalar, {rest}")


def pairs(site: Site, call: str) -> str:
    """Return the largest or smallest of each repeat where a product gives pairs of a value and an index: the scalar unit takes the
    values."""
    kind = site.kind("src")
    return function(site, [
        f"const int64_t most = {ROOM}.GetSize() / {2 * site.size('src')} < 255 ? {ROOM}.GetSize() / {2 * site.size('src')} : 255;",
        f"LocalTensor<{kind}> found = {ROOM}.ReinterpretCast<{kind}>();",
        f"const int64_t done = lanes == {site.lanes} ? repeat : repeat - 1;  // whole repeats",
        "for (int64_t at = 0; at < repeat;) {",
        "    const int64_t count = at < done ? (done - at < most ? done - at : most) : 1;",
        f"    {BARRIER}",
        f"    {call}(found, src[at * src_rep * {site.block('src')}], static_cast<int32_t>(at < done ? {site.lanes} : lanes), "
        f"{u8('count')}, 1, static_cast<int32_t>(src_blk), static_cast<int32_t>(src_rep), ReduceOrder::ORDER_VALUE_INDEX);",
        "    SetFlag<HardEvent::V_S>(0);", "    WaitFlag<HardEvent::V_S>(0);", "    for (int64_t i = 0; i < count; ++i) {",
        "        dst.SetValue(static_cast<uint32_t>((at + i) * dst_rep), found.GetValue(static_cast<uint32_t>(2 * i)));", "    }",
        "    SetFlag<HardEvent::S_V>(0);", "    WaitFlag<HardEvent::S_V>(0);", "    at += count;", "}"])


def fold(site: Site) -> str:
    """Return the largest or smallest fp32 of each repeat on 1001, whose reductions take fp16 alone: the vector unit folds the blocks of
    whole repeats together, and the scalar unit does the rest."""
    call, sign = ("Max", ">") if site.op == "vcmax" else ("Min", "<")
    turn = ["SetFlag<HardEvent::V_S>(0);", "WaitFlag<HardEvent::V_S>(0);"]
    back = ["SetFlag<HardEvent::S_V>(0);", "WaitFlag<HardEvent::S_V>(0);"]
    best = f"best = v {sign} best || v != v ? v : best;"
    return function(site, [
        f"const int64_t most = {ROOM}.GetSize() / 128 < 255 ? {ROOM}.GetSize() / 128 : 255;",
        f"LocalTensor<float> folded = {ROOM}.ReinterpretCast<float>();",
        f"const int64_t done = lanes == {site.lanes} ? repeat : repeat - 1;  // whole repeats",
        "for (int64_t at = 0; at < done; at += most) {", "    const int64_t count = done - at < most ? done - at : most;", f"    {BARRIER}",
        f"    {call}(folded, src[at * src_rep * 8], src[(at * src_rep + 4 * src_blk) * 8], 32, {u8('count')}, "
        f"BinaryRepeatParams{{1, {u8('src_blk')}, {u8('src_blk')}, 4, {u8('src_rep')}, {u8('src_rep')}}});",
        *[f"    {line}" for lanes in (16, 8) for line in (
            BARRIER, f"{call}(folded, folded, folded[{lanes}], {lanes}, {u8('count')}, BinaryRepeatParams{{1, 1, 1, 4, 4, 4}});")],
        *[f"    {line}" for line in turn], "    for (int64_t i = 0; i < count; ++i) {",
        f"        float best = folded.GetValue({u32('32 * i')});", "        for (int64_t e = 1; e < 8; ++e) {",
        f"            const float v = folded.GetValue({u32('32 * i + e')});", f"            {best}", "        }",
        f"        dst.SetValue({u32('(at + i) * dst_rep')}, best);", "    }", *[f"    {line}" for line in back], "}",
        "if (done >= 0 && done < repeat) {", *[f"    {line}" for line in turn],
        f"    float best = src.GetValue({u32('done * src_rep * 8')});", "    for (int64_t e = 1; e < lanes; ++e) {",
        f"        const float v = src.GetValue({u32('(done * src_rep + e / 8 * src_blk) * 8 + e % 8')});", f"        {best}", "    }",
        f"    dst.SetValue({u32('done * dst_rep')}, best);", *[f"    {line}" for line in back], "}"])


def reduction(site: Site) -> str:
    """Return one result a repeat; results are dst_rep elements apart."""
    call = {"vcmax": site.release.reduce_max, "vcmin": site.release.reduce_min, "vcadd": site.release.reduce_sum}[site.op]
    if site.takes_room:
        return fold(site) if site.product == "1001" and site.dtypes[1] == "fp32" else pairs(site, call)
    order = ", ReduceOrder::ORDER_ONLY_VALUE" if site.op != "vcadd" else ""
    mask = "static_cast<int32_t>({mask})"
    return write_repeats(site, f"{call}({{dst}}, {{src}}, {mask}, {{repeat}}, static_cast<int32_t>(dst_rep), "
                         f"static_cast<int32_t>(src_blk), static_cast<int32_t>(src_rep){order});",
                         steps=("dst_rep", f"src_rep * {site.block('src')}"))


def block_reduction(site: Site) -> str:
    """Return one result a block; results of a repeat lie one behind the other, eight times dst_rep elements from repeat to repeat."""
    call = {"vcgmax": site.release.block_max, "vcgmin": site.release.block_min, "vcgadd": site.release.block_sum}[site.op]
    mask = "static_cast<int32_t>({mask})"
    order = f"{mask}, {{repeat}}" if "<" in call else f"{{repeat}}, {mask}"  # the release that renamed it changed the order
    return write_repeats(site, f"{call}({{dst}}, {{src}}, {order}, static_cast<int32_t>(dst_rep), "
                         f"static_cast<int32_t>(src_blk), static_cast<int32_t>(src_rep));",
                         steps=(f"dst_rep * {BLOCKS}", f"src_rep * {site.block('src')}"))


HALVES = "dst_half * 8"  # elements of 4 bytes from the first half of a row of 16 to the second


def by_halves(site: Site, halves: Sequence[str], source: str, blk: str, src_rep: str) -> list[str]:
    """Return lines that turn elements of 4 bytes on 1001, which turns those of 2 alone: low and high halves apart, each twice side by side,
    and masks put them together. `halves`: where the target of each turn begins; `source`: of row i of turn k, an element of src."""
    text = [f"const int64_t most = {ROOM}.GetSize() / 512 < 255 ? {ROOM}.GetSize() / 512 : 255;",
            f"LocalTensor<half> low = {ROOM}.ReinterpretCast<half>(), high = {ROOM}.ReinterpretCast<half>()[most * 128];",
            "LocalTensor<uint16_t> low_bits = low.ReinterpretCast<uint16_t>(), high_bits = high.ReinterpretCast<uint16_t>();",
            "const uint64_t all[2] = {~0ULL, ~0ULL}, odd[2] = {0xAAAAAAAAAAAAAAAAULL, 0xAAAAAAAAAAAAAAAAULL};",
            f"const BinaryRepeatParams strides{{{u8(blk)}, 1, 1, {u8('dst_rep')}, 8, 8}};",
            "for (int64_t at = 0; at < repeat; at += most) {",
            "    const int64_t count = repeat - at < most ? repeat - at : most;",
            f"    const TransDataTo5HDParams params{{false, false, {u8('count')}, {u16('count > 1 ? 8 : 0')}, "
            f"{u16(f'count > 1 ? {src_rep} : 0')}}};"]
    for k, begin in enumerate(halves):
        to = f"dst[at * dst_rep * 8{f' + {begin}' if begin else ''}].ReinterpretCast<uint16_t>()"
        text += [f"    {line}" for line in (
            *turn_lists(source.replace("{k}", str(k)), "(i % 2 ? high : low)[i / 2 * 16]", str(k)), BARRIER,
            f"TransDataTo5HD<half>(to{k}, from{k}, params);", BARRIER, f"Or({to}, low_bits, low_bits, all, {u8('count')}, strides);",
            BARRIER, f"Or({to}, high_bits, high_bits, odd, {u8('count')}, strides);")]
    return [*text, "}"]


def turn_lists(source: str, target: str, name: str = "") -> list[str]:
    """Return lines with the two lists of 16 addresses of a turn; `source` and `target` are tensors by the row i."""
    return [f"uint64_t to{name}[16], from{name}[16];", "for (int64_t i = 0; i < 16; ++i) {",
            f"    to{name}[i] = reinterpret_cast<uint64_t>({target}.GetPhyAddr());",
            f"    from{name}[i] = reinterpret_cast<uint64_t>({source}.GetPhyAddr());", "}"]


def fill_by_turns(site: Site) -> str:
    """Return each of 8 elements a repeat fills a block, on 1001 by a turn of 16 rows that are one block, of 2 bytes for two repeats."""
    if site.size("dst") == 4:
        return function(site, by_halves(site, ("",), "src[at * 8].ReinterpretCast<half>()", "dst_blk", "1"))
    def seen(e: str) -> str: return f"{e}.ReinterpretCast<half>()"
    return function(site, [
        f"LocalTensor<half> rest = {ROOM}.ReinterpretCast<half>();", "for (int64_t at = 0; at < repeat;) {",
        "    const int64_t left = (repeat - at) / 2, count = left > 255 ? 255 : left > 0 ? left : 1;",
        "    const bool alone = left == 0;  // the last of an odd number of repeats",
        *[f"    {line}" for line in turn_lists(seen("src[at * 8]"), f"(alone && i > 7 ? rest[(i - 8) * 16] : "
                                               f"{seen('dst[(at * dst_rep + i % 8 * dst_blk + i / 8 * dst_rep) * 16]')})")],
        f"    {BARRIER}", f"    TransDataTo5HD<half>(to, from, TransDataTo5HDParams{{false, false, {u8('count')}, "
        f"{u16('count > 1 ? 2 * dst_rep : 0')}, {u16('count > 1 ? 1 : 0')}}});", "    at += 2 * count;", "}"])


def vbrcb(site: Site) -> str:
    """Return each of 8 elements a repeat fills a block."""
    if site.takes_room:
        return fill_by_turns(site)
    return function(site, [BARRIER, "if (repeat > 0) {",
                           f"    Brcb(dst, src, {u8('repeat')}, BrcbRepeatParams{{{u16('dst_blk')}, {u16('dst_rep')}}});", "}"])


def vnchwconv(site: Site) -> str:
    """Return rows of 16 blocks as columns, by lists of addresses; steps of one repeat must be 0."""
    if site.takes_room:
        source = "src[(at * src_rep + (8 * {k} + i / 2) * src_stride) * 8].ReinterpretCast<half>()"
        return function(site, by_halves(site, ("", HALVES), source, "dst_stride", "src_rep"))
    kind, seen = ("half", ".ReinterpretCast<half>()") if site.dtypes[0] == "bf16" else (site.kind("dst"), "")
    block = site.block("dst")
    if site.size("dst") == 4:
        to = f"dst[(i / 2 * dst_stride + i % 2 * dst_half) * {block}]"
    else:
        to = f"dst[i * dst_stride * {block}]"
    return function(site, [
        BARRIER, "if (repeat <= 0) {", "    return;", "}", "uint64_t to[16], from[16];", "for (int64_t i = 0; i < 16; ++i) {",
        f"    to[i] = reinterpret_cast<uint64_t>({to}{seen}.GetPhyAddr());",
        f"    from[i] = reinterpret_cast<uint64_t>(src[i * src_stride * {block}]{seen}.GetPhyAddr());", "}",
        f"const TransDataTo5HDParams params{{dst_high != 0, src_high != 0, {u8('repeat')}, {u16('repeat > 1 ? dst_rep : 0')}, "
        f"{u16('repeat > 1 ? src_rep : 0')}}};", f"TransDataTo5HD<{kind}>(to, from, params);"])


def vreducev2(site: Site) -> str:
    """Return the first lanes of rows, one behind the other: bytes two by two, elements without a sign."""
    if site.takes_room:
        return pack_by_masks(site)
    wide = max(site.size("dst"), 2)
    seen, lanes = f".ReinterpretCast<uint{8 * wide}_t>()", "lanes / 2" if site.size("dst") == 1 else "lanes"
    return function(site, [
        BARRIER, "if (repeat <= 0) {", "    return;", "}", "uint64_t kept = 0;",
        f"GatherMask(dst{seen}, src{seen}, static_cast<uint8_t>(7), true, static_cast<uint32_t>({lanes}), "
        f"GatherMaskParams{{1, {u16('repeat')}, {u16('src_rep')}, 0}}, kept);"])


def parts_of(lanes: int, size: int, src_rep: int) -> int:
    """Return the repeats of a row of vreducev2 by masks: one, or the fewest that divide its stride and are at most a repeat long."""
    return 1 if lanes * size <= REPEAT_BYTES else next(n for n in range(1, src_rep + 1) if src_rep % n == 0 and src_rep // n <= 8)


def pack_by_masks(site: Site) -> str:
    """Return the first lanes of rows where they are said by masks, which the scalar unit writes: one for all rows, or one a repeat of
    longer ones. Every repeat but the last is read whole, so that the last rows of all are read on behind their buffer (kernel.py)."""
    wide = max(site.size("dst"), 2)
    width, per, block = 8 * wide, REPEAT_BYTES // wide, 32 // wide
    seen, lanes = f".ReinterpretCast<uint{width}_t>()", "lanes / 2" if site.size("dst") == 1 else "lanes"
    return function(site, [
        f"const int64_t elements = {lanes}, is_long = elements * {wide} > {REPEAT_BYTES};", "int64_t parts = 1;  // repeats of a row",
        "while (is_long && (src_rep % parts != 0 || src_rep / parts > 8)) {", "    ++parts;", "}",
        f"const int64_t each = is_long ? src_rep / parts * {block} : {per};",
        f"const int64_t most = is_long ? {ROOM}.GetSize() / 32 / parts / 16 * 16 : repeat, rows = most < repeat ? most : repeat;",
        "const int64_t last = is_long ? elements - (parts - 1) * each : elements;",
        f"LocalTensor<uint{width}_t> masks = {ROOM}.ReinterpretCast<uint{width}_t>();",
        "SetFlag<HardEvent::V_S>(0);", "WaitFlag<HardEvent::V_S>(0);",
        "for (int64_t i = 0; i < (is_long ? rows * parts : 1); ++i) {",
        "    const int64_t left = elements - i % parts * each, here = left < each ? left : each;",
        f"    for (int64_t w = 0; w < {per // width}; ++w) {{", f"        const int64_t n = here - w * {width};",
        f"        masks.SetValue({u32(f'i * {block} + w')},",
        f"            static_cast<uint{width}_t>(n >= {width} ? ~0ULL : n > 0 ? (1ULL << n) - 1 : 0));", "    }", "}",
        "SetFlag<HardEvent::S_V>(0);", "WaitFlag<HardEvent::S_V>(0);", "for (int64_t at = 0; at < repeat; at += rows) {",
        "    const int64_t count = repeat - at < rows ? repeat - at : rows;", "    uint64_t kept = 0;", f"    {BARRIER}",
        f"    GatherMask(dst[at * lanes]{seen}, src[at * src_rep * {site.block('src')}]{seen}, masks, true, "
        f"{u32(f'(count * parts - 1) * {per} + (last > 0 ? last : 0)')}, "
        f"GatherMaskParams{{1, {u16('count * parts')}, {u16('src_rep / parts')}, {u16('is_long')}}}, kept);", "}"])


def bits(site: Site) -> str:
    """Return calls of and, or and not of whole numbers, as elements of 16 bits."""
    factor = site.size("dst") // 2
    if site.op == "vnot":
        return write_repeats(site, "Not({dst}, {src}, {mask}, {repeat}, params);", unary_strides(site), "uint16_t", factor)
    call = {"vand": "And", "vor": "Or"}[site.op]
    text = f"{call}({{dst}}, {{src0}}, {{src1}}, {{mask}}, {{repeat}}, params);"
    return write_repeats(site, text, binary_strides(site), "uint16_t", factor)


def shift(site: Site) -> str:
    """Return calls of shifts. Left shifts take no sign, which would stay otherwise. Right shifts keep the sign where there is one."""
    if site.op == "vshls":
        call = "ShiftLeft({dst}, {src}, static_cast<uint32_t>(scalar), {mask}, {repeat}, params);"
        return write_repeats(site, call, unary_strides(site), "uint32_t")
    return write_repeats(site, "ShiftRight({dst}, {src}, scalar, {mask}, {repeat}, params, false);", unary_strides(site))


def vgather(site: Site) -> str:
    """Return elements from where offsets in bytes say, which lie one behind the other."""
    seen = "" if site.dtypes[2] == "uint32" else ".ReinterpretCast<uint32_t>()"
    call = f"Gather({{dst}}, src, {{offset}}{seen}, 0, {{mask}}, {{repeat}}, {u16('dst_rep')});"
    return write_repeats(site, call, steps=(f"dst_rep * {site.block('dst')}", "0", f"{site.lanes}"))


def check_lanes(site: Site, are_even: bool) -> None:
    """Raise UnsupportedError where bytes are moved two by two and the lanes are not known to be even."""
    if site.op in ("vreducev2", "vcopy", "vdup") and site.size("dst") == 1 and not are_even:
        raise refusal(site.op, site.product, "bytes are moved two by two, and the lanes are not known to be an even number")


FUNCTIONS: dict[str, Writer] = {
    **dict.fromkeys(BINARY, binary), **dict.fromkeys(SCALAR, with_number), **dict.fromkeys(UNARY, unary), "vcopy": vcopy, "vdup": vdup,
    **dict.fromkeys(("vcmax", "vcmin", "vcadd"), reduction),
    **dict.fromkeys(("vcgmax", "vcgmin", "vcgadd"), block_reduction), "vbrcb": vbrcb, "vnchwconv": vnchwconv, "vreducev2": vreducev2,
    "vgather": vgather,
    **dict.fromkeys(("vand", "vor", "vnot"), bits), **dict.fromkeys(("vshls", "vshrs"), shift)}
