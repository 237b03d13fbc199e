"""Functions of copies: GM to L1, L1 to L0, BT, and between GM, UB and L1.

On 2002 and 1001, copies between GM and UB move whole blocks. A burst into UB is read up to the end of its last block. A burst into GM that
is no whole number of blocks is the subject of target/legality/bursts.py."""
from __future__ import annotations

from aoec.ascendc.function import ROOM, Site, Writer, function, u8, u16, u32
from aoec.ir.index import DTYPES
from aoec.target.isa.instructions import BLOCK_BYTES

READS_ON = 31  # bytes behind a burst that a copy of whole blocks may read


def moves_bytes(product: str) -> bool:
    """Return whether copies between GM and UB move bytes on a product, and not blocks alone."""
    return product == "2201"


def add_to(site: Site, copy: str) -> list[str]:
    """Return the lines of a copy to GM: between the start and the end of a sum, where it adds."""
    return [f"SetAtomicAdd<{site.kind('dst')}>();", copy, f"{site.release.atomic_end}();"] if site.atomic else [copy]


def blocks(bursts: str, length: str, src_gap: str, dst_gap: str) -> str:
    """Return the parameters of a copy in blocks."""
    return f"DataCopyParams{{{u16(bursts)}, {u16(length)}, {u16(src_gap)}, {u16(dst_gap)}}}"


def in_blocks(site: Site) -> str:
    """Return a copy whose fields count blocks already."""
    return function(site, [f"DataCopy(dst, src, {blocks('bursts', 'length', 'src_gap', 'dst_gap')});"])


def nd2nz(site: Site) -> str:
    """Return rows of a matrix as fractals in L1."""
    return function(site, ["// one matrix: rows, columns, stride between matrices, between rows; in L1 between planes, rows, matrices",
                           f"DataCopy(dst, src, Nd2NzParams{{1, {u16('rows')}, {u16('cols')}, 0, {u16('src_stride')}, "
                           f"{u16('dst_rows')}, 1, 0}});"])


def load2d(site: Site) -> str:
    """Return fractals from L1 to L0A or L0B. On 1001 there is no target gap: fractals that are apart are loaded one a call."""
    if site.product == "1001":
        elements = 16 * site.block("dst")
        return function(site, [
            "// start, fractals, source stride, sid, target gap, transpose, address mode", "if (dst_gap == 0) {",
            f"    LoadData(dst, src, LoadData2DParams{{0, {u8('repeat')}, {u16('src_stride')}, 0, 0, transpose != 0, 0}});",
            "    return;", "}", "for (int64_t i = 0; i < repeat; ++i) {",
            f"    LoadData(dst[i * (1 + dst_gap) * {elements}], src[i * src_stride * {elements}], "
            "LoadData2DParams{0, 1, 1, 0, 0, transpose != 0, 0});", "}"])
    return function(site, ["// start, fractals, source stride, sid, target gap, transpose, address mode",
                           f"LoadData(dst, src, LoadData2DParams{{0, {u8('repeat')}, {u16('src_stride')}, 0, {u16('dst_gap')}, "
                           "transpose != 0, 0});"])


def image_fields(site: Site) -> list[str]:
    """Return the fields that both calls of windows of an image have: pads, extents, strides, dilations and the value of the pads."""
    return [*[f"params.padList[{i}] = {u8(f'pad_{side}')};" for i, side in enumerate(("left", "right", "top", "bottom"))],
            f"params.l1H = {u16('h')};", f"params.l1W = {u16('w')};", f"params.strideW = {u8('stride_w')};",
            f"params.strideH = {u8('stride_h')};", f"params.dilationFilterW = {u8('dilation_w')};",
            f"params.dilationFilterH = {u8('dilation_h')};",
            f"params.padValue = static_cast<{site.kind('src')}>({'pad_value' if site.size('src') == 1 else '0'});"]


def load3d_rows(site: Site) -> str:
    """Return windows of an image by the call of 1001, which makes 16 rows: repeats walk along k, and fractals lie one behind the other."""
    c0 = site.block("src")
    return function(site, [
        "const int64_t wide = (w + pad_left + pad_right - dilation_w * (filter_w - 1) - 1) / stride_w + 1;  // positions in a row",
        f"const int64_t columns = (k_size + {c0 - 1}) / {c0};", f"LoadData3DParamsV1<{site.kind('src')}> params;", *image_fields(site),
        f"params.filterW = {u8('filter_w')};", f"params.filterH = {u8('filter_h')};",
        "params.jumpStride = 1;", "params.repeatMode = 0;", "params.cSize = 0;", "for (int64_t m = 0; m < m_size; m += 16) {",
        "    const int64_t at = m_start + m;", "    params.leftTopW = static_cast<int16_t>(at % wide * stride_w - pad_left);",
        "    params.leftTopH = static_cast<int16_t>(at / wide * stride_h - pad_top);",
        "    for (int64_t j = 0; j < columns; j += 255) {",
        f"        const int64_t tap = k_start / {c0} + j, count = columns - j < 255 ? columns - j : 255;",
        f"        params.c1Index = {u16('tap / (filter_w * filter_h)')};", f"        params.fetchFilterW = {u8('tap % filter_w')};",
        f"        params.fetchFilterH = {u8('tap / filter_w % filter_h')};", f"        params.repeatTime = {u8('count')};",
        f"        LoadData(dst[(m / 16 * columns + j) * {16 * c0}], src, params);", "    }", "}"])


def load3d(site: Site) -> str:
    """Return windows of an image from L1 to L0A; whole blocks of k and 16 rows are read, which is what L0A holds."""
    if site.product == "1001":
        return load3d_rows(site)
    c0, small = site.block("src"), "channels == 4" if site.size("src") == 2 else "false"
    text = [
        f"LoadData3DParamsV2<{site.kind('src')}> params;", *image_fields(site),
        f"const int64_t taps = filter_h * filter_w, most_k = {small} ? taps * 4 - k_start : k_size + {c0};",
        f"const int64_t whole_k = (k_size + {c0 - 1}) / {c0} * {c0};",
        f"params.channelSize = {u16(f'{small} ? 4 : (channels + {c0 - 1}) / {c0} * {c0}')};",
        f"params.kExtension = {u16('whole_k < most_k ? whole_k : most_k')};", f"params.mExtension = {u16('(m_size + 15) / 16 * 16')};",
        f"params.kStartPt = {u16('k_start')};", f"params.mStartPt = {u16('m_start')};",
        f"params.filterW = {u8('filter_w > 255 ? filter_w - 256 : filter_w')};",
        f"params.filterH = {u8('filter_h > 255 ? filter_h - 256 : filter_h')};",
        "params.enTranspose = false;", "params.enSmallK = false;",
        "params.filterSizeW = filter_w > 255;", "params.filterSizeH = filter_h > 255;", "params.fMatrixCtrl = false;",
        "LoadData(dst, src, params);"]
    return function(site, text)


def load_bt(site: Site) -> str:
    """Return a bias from L1 to the bias table, whose lengths count 64 bytes."""
    return function(site, [f"DataCopy(dst, src, {blocks('1', '(length + 1) / 2', '0', '0')});"])


def load_fb(site: Site) -> str:
    """Return words of scales from L1 to the buffer of Fixpipe, whose lengths count 128 bytes, between what reads the words before and
    these."""
    barrier = "PipeBarrier<PIPE_FIX>();"
    return function(site, [barrier, f"DataCopy(dst, src, {blocks('1', '(length + 3) / 4', '0', '0')});", barrier])


def _pad(site: Site, bursts: str, length: str, src_gap: str, dst_gap: str) -> str:
    """Return the parameters of a copy in bytes; into UB with those of a padding, to the end of a burst's last block, or of none."""
    params = f"DataCopyExtParams{{{u16(bursts)}, {u32(length)}, {u32(src_gap)}, {u32(dst_gap)}, 0}}"
    kind, size = site.kind("dst"), site.size("dst")
    if site.op == "copy_ub_gm":
        return params
    if site.padded:
        behind = u8(f"(32 - {length} % 32) % 32 / {size}")
        return f"{params}, DataCopyPadExtParams<{kind}>{{true, 0, {behind}, pad}}"
    return f"{params}, DataCopyPadExtParams<{kind}>{{false, 0, 0, static_cast<{kind}>(0)}}"


def copy_gm_ub(site: Site) -> str:
    """Return bursts of bytes from GM to UB."""
    if moves_bytes(site.product):
        return function(site, [f"DataCopyPad(dst, src, {_pad(site, 'bursts', 'length', 'src_gap', 'dst_gap')});"])
    block, size = site.block("src"), site.size("src")
    behind = []
    if site.padded:  # by the scalar unit, when MTE2 has come to it; what waits for MTE2 waits for it too
        behind = ["if (length % 32 == 0) {", "    return;", "}", "SetFlag<HardEvent::MTE2_S>(0);", "WaitFlag<HardEvent::MTE2_S>(0);",
                  f"const int64_t row = ((length + 31) / 32 + dst_gap) * {block}, end = (length + 31) / 32 * {block};",
                  "for (int64_t b = 0; b < bursts; ++b) {", f"    for (int64_t e = length / {size}; e < end; ++e) {{",
                  f"        dst.SetValue({u32('b * row + e')}, pad);", "    }", "}", "SetFlag<HardEvent::S_MTE2>(0);",
                  "WaitFlag<HardEvent::S_MTE2>(0);"]
    return function(site, [
        "if (length % 32 == 0 && src_gap % 32 == 0 && src_gap / 32 <= 65535) {",
        f"    DataCopy(dst, src, {blocks('bursts', 'length / 32', 'src_gap / 32', 'dst_gap')});", "    return;", "}",
        "for (int64_t b = 0; b < bursts; ++b) {  // whole blocks, of which the last reads on behind the burst",
        f"    DataCopy(dst[b * ((length + 31) / 32 + dst_gap) * {block}], src[b * (length + src_gap) / {size}], "
        f"{blocks('1', '(length + 31) / 32', '0', '0')});", "}", *behind])


def copy_ub_gm(site: Site) -> str:
    """Return bursts of bytes from UB to GM, added to what is there where the copy is atomic."""
    if moves_bytes(site.product):
        return function(site, add_to(site, f"DataCopyPad(dst, src, {_pad(site, 'bursts', 'length', 'src_gap', 'dst_gap')});"))
    whole = f"DataCopy(dst, src, {blocks('bursts', 'length / 32', 'src_gap', 'dst_gap / 32')});"
    return function(site, in_parts(site, whole) if site.is_ragged else add_to(site, whole))


def in_parts(site: Site, whole: str) -> list[str]:
    """Return lines of a copy of bursts that may be no whole blocks. `whole`: the copy of those that are.

    What is left of a burst behind its whole blocks goes with elements before it, in a block that the scalar unit puts together in room of
    UB. It waits for all that MTE3 did, and MTE3 for it."""
    kind, block, size = site.kind("src"), site.block("src"), site.size("src")
    ready = ["SetFlag<HardEvent::MTE3_S>(0);", "WaitFlag<HardEvent::MTE3_S>(0);"]
    done = ["SetFlag<HardEvent::S_MTE3>(0);", "WaitFlag<HardEvent::S_MTE3>(0);"]
    text = [
        "if (length % 32 == 0 && (dst_gap % 32 == 0 || bursts == 1)) {", f"    {whole}", "    return;", "}",
        f"const int64_t n = length / {size}, step = n + dst_gap / {size}, row = ((length + 31) / 32 + src_gap) * {block};",
        "if (length >= 32) {", "    for (int64_t b = 0; b < bursts; ++b) {",
        f"        DataCopy(dst[b * step], src[b * row], {blocks('1', 'length / 32', '0', '0')});", "    }",
        "    if (length % 32 == 0) {", "        return;", "    }", "}",
        "const bool joined = length < 32 && dst_gap == 0;  // short bursts that follow each other are one",
        "const int64_t total = joined ? bursts * n : n;", f"LocalTensor<{kind}> part = {ROOM}.ReinterpretCast<{kind}>();"]
    if site.side:
        first = f"(joined ? 0 : b * step){f' + total - {block}' if site.side == 'left' else ''}"
        text += [f"if (total < {block}) {{  // what lies beside it in a block is read, and written back",
                 "    for (int64_t b = 0; b < (joined ? 1 : bursts); ++b) {", *[f"        {line}" for line in (
                     *ready, "SetFlag<HardEvent::S_MTE2>(0);", "WaitFlag<HardEvent::S_MTE2>(0);",
                     f"DataCopy(part, dst[{first}], {blocks('1', '1', '0', '0')});", "SetFlag<HardEvent::MTE2_S>(0);",
                     "WaitFlag<HardEvent::MTE2_S>(0);", "for (int64_t i = 0; i < total; ++i) {",
                     f"    part.SetValue({u32(f'{block} - total + i' if site.side == 'left' else 'i')}, "
                     f"src.GetValue({u32('joined ? i / n * row + i % n : b * row + i')}));", "}", *done,
                     f"DataCopy(dst[{first}], part, {blocks('1', '1', '0', '0')});")],
                 "    }", "    return;", "}"]
    return [*text,
            f"const int64_t pieces = joined ? (total + {block - 1}) / {block} : bursts, room_for = {ROOM}.GetSize() / 32;",
            "for (int64_t at = 0; at < pieces; at += room_for) {",
            "    const int64_t count = pieces - at < room_for ? pieces - at : room_for;", *[f"    {line}" for line in ready],
            f"    for (int64_t i = 0; i < count * {block}; ++i) {{",
            f"        const int64_t piece = at + i / {block}, begin = joined && piece * {block} < total - {block} ? piece * {block} "
            f": total - {block};", f"        const int64_t g = begin + i % {block};",
            f"        part.SetValue({u32('i')}, src.GetValue({u32('joined ? g / n * row + g % n : piece * row + g')}));", "    }",
            *[f"    {line}" for line in done], "    for (int64_t i = 0; i < count; ++i) {",
            f"        const int64_t piece = at + i, begin = joined && piece * {block} < total - {block} ? piece * {block} "
            f": total - {block};", "        PipeBarrier<PIPE_MTE3>();",
            f"        DataCopy(dst[joined ? begin : piece * step + begin], part[i * {block}], {blocks('1', '1', '0', '0')});", "    }", "}"]


def copy_gm_ub_at(site: Site) -> str:
    """Return one burst from where an index says, which the scalar unit reads when MTE2 has come to it."""
    at = f"src[at * pitch / {DTYPES[site.dtypes[1]]}]"
    copy = (f"DataCopyPad(dst, {at}, {_pad(site, '1', 'length', '0', '0')});" if moves_bytes(site.product)
            else f"DataCopy(dst, {at}, {blocks('1', f'(length + {BLOCK_BYTES - 1}) / {BLOCK_BYTES}', '0', '0')});")
    return function(site, [
        "SetFlag<HardEvent::MTE2_S>(0);", "WaitFlag<HardEvent::MTE2_S>(0);", "int64_t at = index.GetValue(0);",
        "at = at < 0 ? at + extent : at;", "at = at < 0 ? 0 : at < extent ? at : extent - 1;", copy])


FUNCTIONS: dict[str, Writer] = {
    "copy_gm_l1": in_blocks, "copy_ub_l1": in_blocks, "copy_gm_l1_nd2nz": nd2nz, "load_l0a": load2d, "load_l0b": load2d, "load3d": load3d,
    "load_bt": load_bt, "load_fb": load_fb, "copy_gm_ub": copy_gm_ub, "copy_ub_gm": copy_ub_gm, "copy_gm_ub_at": copy_gm_ub_at}
