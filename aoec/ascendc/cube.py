"""Functions of products, and of what leaves L0C. UnitFlag stays off on both sides: the program's flags order the same accesses."""
from __future__ import annotations

from aoec.ascendc.copies import add_to, blocks
from aoec.ascendc.function import Site, Writer, function, u16, u32
from aoec.base.errors import UnsupportedError

QUANT = {("fp32", "fp32"): "NoQuant", ("int32", "int32"): "NoQuant", ("fp16", "fp32"): "F322F16", ("bf16", "fp32"): "F322BF16"}


def mmad(site: Site) -> str:
    """Return a product of fractals: one row is computed as 16, since one alone would be read as a vector; the next waits for a short
    one."""
    call = ["MmadParams params;", f"params.m = {u16('m == 1 ? 16 : m')};", f"params.n = {u16('n')};", f"params.k = {u16('k')};",
            "params.cmatrixInitVal = init != 0;", "params.cmatrixSource = false;", "params.unitFlag = 0;"]
    barrier = ["if (m / 16 * (n / 16) < 10) {", "    PipeBarrier<PIPE_M>();", "}"]
    if site.op == "mmad":
        return function(site, [*call, *barrier, "Mmad(dst, a, b, params);"])
    call[4] = "params.cmatrixInitVal = false;"
    return function(site, [*call, *barrier, "if (init != 0) {", "    Mmad(dst, a, b, bias, params);", "} else {",
                           "    Mmad(dst, a, b, params);", "}"])


def fixpipe(site: Site) -> str:
    """Return a tile of L0C into GM, as rows or as fractals, with cast and relu on the way."""
    nz, (dst, src) = site.op == "fixpipe_nz", site.dtypes
    if (dst, src) not in QUANT:
        raise UnsupportedError(f"{site.op} has no mode of Fixpipe from {src} to {dst} that aoec writes")
    stride = f"dst_stride * {site.size('dst')} / 32" if nz else "dst_stride"
    text = ["FixpipeParamsV220 params;", f"params.nSize = {u16('n')};", f"params.mSize = {u16('m')};",
            f"params.srcStride = {u16('src_rows')};", f"params.dstStride = {u32(stride)};",
            f"params.quantPre = QuantMode_t::{QUANT[dst, src]};", "params.deqScalar = 0;", "params.ndNum = 1;", "params.srcNdStride = 0;",
            "params.dstNdStride = 0;", "params.reluEn = relu != 0;", "params.unitFlag = 0;"]
    if nz and dst == "fp32":
        text.append("params.isChannelSplit = true;")
    call = f"Fixpipe<{site.kind('dst')}, {site.kind('src')}, {'CFG_NZ' if nz else 'CFG_ROW_MAJOR'}>(dst, src, params);"
    return function(site, [*text, *add_to(site, call)])


def scale_columns(site: Site) -> str:
    """Return a tile of int32 in L0C into GM as int8, each column by its word of scale and zero point, which a register says where to
    find."""
    nz = site.op == "fixpipe_nz_scale"
    stride = f"dst_stride * {site.size('dst')} / 32" if nz else "dst_stride"
    return function(site, [
        "SetFixPipeConfig(scale);", *([] if nz else ["SetFixpipeNz2ndFlag(1, 0, 1);  // one matrix"]),
        "DataCopyCO12DstParams params;", "params.sid = 0;", f"params.nSize = {u16('n')};", f"params.mSize = {u16('m')};",
        f"params.dstStride = {u32(stride)};", f"params.srcStride = {u16('src_rows')};", "params.unitFlag = 0;",
        "params.quantPre = QuantMode_t::VREQ8;", "params.reluPre = relu != 0;", "params.channelSplit = false;",
        f"params.nz2ndEn = {'false' if nz else 'true'};", "DataCopy(dst, src, params);"])


def copy_l0c_ub(site: Site) -> str:
    """Return fractals of L0C into UB, with cast and relu on the way."""
    return function(site, ["DataCopyEnhancedParams more;", "more.blockMode = BlockMode::BLOCK_MODE_MATRIX;",
                           "more.deqScale = DeqScale::DEQ_NONE;", "more.isRelu = relu != 0;",
                           f"DataCopy(dst, src, {blocks('bursts', 'length', 'src_gap', 'dst_gap')}, more);"])


FUNCTIONS: dict[str, Writer] = {"mmad": mmad, "mmad_bias": mmad, "fixpipe_nd": fixpipe, "fixpipe_nz": fixpipe,
                                "fixpipe_nd_scale": scale_columns, "fixpipe_nz_scale": scale_columns, "copy_l0c_ub": copy_l0c_ub}
