// Copies and loads, the cube, and what leaves L0C.
#pragma once
#include "standin_tensors.h"

namespace AscendC {

#define STANDIN_RECORD(OP, PIPE, NAME) \
    standin::Record r{}; r.op = standin::Op::OP, r.pipe = standin::PIPE, r.name = NAME, r.line = here.number

inline const char* StandinMemName(standin::Mem m) {
    constexpr const char* names[] = {"GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB", "no memory"};
    return names[m];
}
// In bytes: bursts of so many, steps from start to start; `fill`: what the rest of a block holds, 1 the first element, 2 `fill_bits`.
inline void StandinBursts(const char* name, standin::Place dst, standin::Place src, int64_t bursts, int64_t length, int64_t dst_step,
    int64_t src_step,
                          standin::Line here, int64_t fill = 0, uint64_t fill_bits = 0, int64_t left = 0, int64_t right = 0) {
    STANDIN_RECORD(Bursts, V, name);
    const auto to = dst.mem, from = src.mem;
    const bool pad = std::strcmp(name, "DataCopyPad") == 0;
    using namespace standin;
    if (from == GM && (to == UB || to == L1)) r.pipe = MTE2;
    else if (from == UB && to == GM) r.pipe = MTE3;
    else if (from == UB && to == UB && !pad) r.pipe = V;
    else if (from == UB && to == L1 && !pad && !A2) r.pipe = MTE3;
    else if (from == L1 && to == BT && !pad && A2) r.pipe = MTE1;
    else if (from == L1 && to == FB && !pad && A2) r.pipe = FIX;
    else Fail(here.number, name, "product %d has no such copy from %s to %s", STANDIN_PRODUCT, StandinMemName(from), StandinMemName(to));
    r.dst = dst, r.a = src;
    const int64_t fields[] = {bursts, length, dst_step, src_step, fill, left, right};
    for (int i = 0; i < 7; i++) r.n[i] = fields[i];
    r.bits = fill_bits;
    Put(r);
}
template <typename D, typename A> void StandinBlocks(const D& dst, const A& src, const DataCopyParams& p, standin::Line here) {
    if (p.blockCount > 4095) standin::Fail(here.number, "DataCopy", "blockCount is %d, at most 4095", p.blockCount);
    const int64_t unit = dst.standin_place.mem == standin::BT ? 64 : dst.standin_place.mem == standin::FB ? 128 : 32;
         // of lengths into tables
    StandinBursts("DataCopy", dst.standin_place, src.standin_place, p.blockCount, p.blockLen * unit,
        p.blockLen * unit + p.dstGap * int64_t{32},
                  p.blockLen * unit + p.srcGap * int64_t{32}, here);
}
template <typename T> void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p,
    STANDIN_HERE) { StandinBlocks(dst, src, p, here); }
template <typename T> void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p,
    STANDIN_HERE) { StandinBlocks(dst, src, p, here); }
template <typename T, typename U> void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& p,
    STANDIN_HERE) {
    static_assert(std::is_same_v<T, U>, "stand-in: DataCopy between these elements converts, which the stand-in does not do");
    StandinBlocks(dst, src, p, here);
}
template <typename D, typename A> void StandinCount(const D& dst, const A& src, uint32_t bytes, standin::Line here) {
    if (bytes % 32) standin::Fail(here.number, "DataCopy", "%u bytes are no multiple of 32", bytes);
    StandinBursts("DataCopy", dst.standin_place, src.standin_place, 1, bytes, bytes, bytes, here);
}
template <typename T> void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t count,
    STANDIN_HERE) { StandinCount(dst, src, count * sizeof(T), here); }
template <typename T> void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count,
    STANDIN_HERE) { StandinCount(dst, src, count * sizeof(T), here); }
template <typename T> void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, STANDIN_HERE) { StandinCount(dst,
    src, count * sizeof(T), here); }

inline void StandinExt(const DataCopyExtParams& p, uint64_t size, standin::Line here) {
    if (p.blockCount > 4095) standin::Fail(here.number, "DataCopyPad", "blockCount is %d, at most 4095", p.blockCount);
    if (p.blockLen > 2097151) standin::Fail(here.number, "DataCopyPad", "blockLen is %u bytes, at most 2097151", p.blockLen);
    if (p.blockLen % size) standin::Fail(here.number, "DataCopyPad", "blockLen of %u bytes is no multiple of the element's %d", p.blockLen,
        static_cast<int>(size));
    if (p.srcStride < 0) standin::Fail(here.number, "DataCopyPad", "srcStride is negative");
}
#if STANDIN_PRODUCT == 2201
template <typename T> void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& p,
    const DataCopyPadExtParams<T>& pad, STANDIN_HERE) {
    StandinExt(p, sizeof(T), here);
    const int64_t left = pad.isPad ? pad.leftPadding : 0, right = pad.isPad ? pad.rightPadding : 0, size = sizeof(T);
    if (left * size > 32 || right * size > 32) standin::Fail(here.number, "DataCopyPad",
        "leftPadding and rightPadding are at most 32 bytes");
    const int64_t row = (p.blockLen + (left + right) * size + 31) / 32 * 32;
    StandinBursts("DataCopyPad", dst.standin_place, src.standin_place, p.blockCount, p.blockLen, row + p.dstStride * int64_t{32},
                  p.blockLen + p.srcStride, here, left || right ? 2 : 1, standin::Bits(pad.paddingValue), left * size, right * size);
}
template <typename T> void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& p, STANDIN_HERE) {
    StandinExt(p, sizeof(T), here);
    StandinBursts("DataCopyPad", dst.standin_place, src.standin_place, p.blockCount, p.blockLen,
        p.blockLen + static_cast<int64_t>(p.dstStride),
                  (p.blockLen + 31) / 32 * int64_t{32} + p.srcStride * 32, here);
}
template <typename T> void SetPadValue(T value) { standin::SetPad(standin::Bits(value)); }
#endif

#if STANDIN_PRODUCT != 1001
template <typename T> void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& p, STANDIN_HERE) {
    static_assert(standin::A2 || sizeof(T) == 2 || sizeof(T) == 4, "stand-in: ND2NZ takes elements of 16 and 32 bits on this product");
    STANDIN_RECORD(Nd2Nz, MTE2, "DataCopy (ND2NZ)");
    if (dst.standin_place.mem != standin::L1) standin::Fail(here.number, r.name, "the target is not in L1");
    if (p.ndNum > 4095 || p.nValue > 16384 || p.dValue > 65535 || p.srcDValue < 1 || p.srcDValue > 65535 || p.dstNzC0Stride < 1 ||
        p.dstNzC0Stride > 16384)
        standin::Fail(here.number, r.name,
            "a field leaves its range: ndNum 0..4095, nValue 0..16384, dValue 0..65535, srcDValue 1..65535, dstNzC0Stride 1..16384");
    r.dst = dst.standin_place, r.a = src.standin_place;
    const int64_t fields[] = {p.ndNum, p.nValue, p.dValue, static_cast<int64_t>(p.srcNdMatrixStride), static_cast<int64_t>(p.srcDValue),
        p.dstNzC0Stride,
                              p.dstNzNStride, static_cast<int64_t>(p.dstNzMatrixStride)};
    for (int i = 0; i < 8; i++) r.n[i] = fields[i];
    standin::Put(r);
}
#endif

// ---- L1 to L0
template <typename T> void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& p, STANDIN_HERE) {
    static_assert(standin::A2 || standin::IsAny<T, half, int8_t, uint8_t>,
        "stand-in: LoadData takes half and 8-bit elements on this product");
    STANDIN_RECORD(Load2D, MTE1, "LoadData");
    const auto to = dst.standin_place.mem;
    if (src.standin_place.mem != standin::L1 || (to != standin::L0A && to != standin::L0B))
        standin::Fail(here.number, r.name, "the stand-in loads from L1 to L0A or L0B, not from %s to %s",
            StandinMemName(src.standin_place.mem), StandinMemName(to));
    if (p.ifTranspose && sizeof(T) != 2) standin::Fail(here.number, r.name, "ifTranspose is for elements of 16 bits");
    if (standin::A910 && p.dstGap) standin::Fail(here.number, r.name, "dstGap cannot be set on product 1001");
    r.dst = dst.standin_place, r.a = src.standin_place;
    const int64_t fields[] = {p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, p.ifTranspose};
    for (int i = 0; i < 5; i++) r.n[i] = fields[i];
    standin::Put(r);
}
#if STANDIN_PRODUCT == 2201
template <typename T> void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2dTransposeParams& p,
    STANDIN_HERE) {
    STANDIN_RECORD(Load2DTurned, MTE1, "LoadDataWithTranspose");
    if (sizeof(T) != 2) standin::Fail(here.number, r.name, "the stand-in turns fractals of 16-bit elements alone");
    r.op = standin::Op::Load2D;
    r.dst = dst.standin_place, r.a = src.standin_place;
    const int64_t fields[] = {p.startIndex, p.repeatTimes, p.srcStride, p.dstGap, 1};
    for (int i = 0; i < 5; i++) r.n[i] = fields[i];
    standin::Put(r);
}
#endif
#if STANDIN_PRODUCT != 1001
inline void SetFmatrix(uint16_t h, uint16_t w, const uint8_t pads[4], FmatrixMode mode = FmatrixMode::FMATRIX_LEFT) {
    const int64_t values[] = {h, w, pads[0], pads[1], pads[2], pads[3]};
    standin::SetLoad3D(0, values);
}
template <typename T> void SetLoadDataPaddingValue(T value) {
    const int64_t bits = static_cast<int64_t>(standin::Bits(value));
    standin::SetLoad3D(1, &bits);
}
inline void SetLoadDataBoundary(uint32_t bytes, STANDIN_HERE) {
    if (bytes) standin::Fail(here.number, "SetLoadDataBoundary", "the stand-in has no wrapped addresses: 0 alone");
}
template <typename T, const IsResetLoad3dConfig& config = STANDIN_RESETS_LOAD3D>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData3DParamsV2<T>& p, STANDIN_HERE) {
    static_assert(standin::A2 || standin::IsAny<T, half, int8_t, uint8_t>,
        "stand-in: LoadData 3D takes half and 8-bit elements on this product");
    STANDIN_RECORD(Load3D, MTE1, "LoadData (3D)");
    if (src.standin_place.mem != standin::L1 || dst.standin_place.mem != standin::L0A)
        standin::Fail(here.number, r.name, "the stand-in loads images from L1 to L0A, not from %s to %s",
            StandinMemName(src.standin_place.mem), StandinMemName(dst.standin_place.mem));
    if (p.enTranspose || p.enSmallK || p.fMatrixCtrl) standin::Fail(here.number, r.name,
        "the stand-in has enTranspose, enSmallK and fMatrixCtrl false alone");
    constexpr int64_t c0 = 32 / sizeof(T);
    const int64_t c = p.channelSize, rest = c % c0;
    const bool good = c > 0 && (sizeof(T) == 1 ? rest == 0 || rest == 4 || rest == 8 || rest == 16 : sizeof(T) == 2 ? rest == 0 ||
        rest == 4 || rest == 8 : rest == 0 || rest == 4);
    if (!good) standin::Fail(here.number, r.name, "channelSize is %d, which this width of elements does not take", static_cast<int>(c));
    r.dst = dst.standin_place, r.a = src.standin_place;
    const int64_t fields[] = {p.l1H, p.l1W, c, p.kStartPt, p.kExtension, p.mStartPt, p.mExtension, p.strideH, p.strideW,
        p.filterH + 256 * p.filterSizeH, p.filterW + 256 * p.filterSizeW, p.dilationFilterH, p.dilationFilterW, p.padList[2], p.padList[3],
        p.padList[0], p.padList[1], static_cast<int64_t>(standin::Bits(p.padValue)), config.isSetFMatrix, config.isSetPadding};
    for (int i = 0; i < 20; i++) r.n[i] = fields[i];
    standin::Put(r);
}
#endif

// 16 rows by their first window; repeats walk along k, and each fractal lies behind the one before, since no page gives jumpStride's unit
#if STANDIN_PRODUCT != 2201
template <typename T> void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData3DParamsV1<T>& p, STANDIN_HERE) {
    static_assert(standin::IsAny<T, half, int8_t, uint8_t>, "stand-in: LoadData 3D takes half and 8-bit elements on this product");
    STANDIN_RECORD(Load3D, MTE1, "LoadData (3D, V1)");
    if (src.standin_place.mem != standin::L1 || dst.standin_place.mem != standin::L0A)
        standin::Fail(here.number, r.name, "the stand-in loads images from L1 to L0A, not from %s to %s",
            StandinMemName(src.standin_place.mem), StandinMemName(dst.standin_place.mem));
    if (p.jumpStride != 1 || p.repeatMode || p.cSize) standin::Fail(here.number, r.name,
        "the stand-in has jumpStride 1, repeatMode 0 and cSize 0 alone");
    if (!p.repeatTime || !p.strideW || !p.strideH || !p.filterW || !p.filterH || p.c1Index > 4095 || p.fetchFilterW >= p.filterW ||
        p.fetchFilterH >= p.filterH)
        standin::Fail(here.number, r.name, "a field leaves its range: repeatTime, strides and filter from 1, c1Index to 4095, "
            "fetchFilter below filter");
    const int64_t x = p.leftTopW + p.padList[0], y = p.leftTopH + p.padList[2];
    const int64_t wide = (p.l1W + p.padList[0] + p.padList[1] - p.dilationFilterW * (p.filterW - 1) - 1) / p.strideW + 1;
    if (p.leftTopW < -255 || p.leftTopH < -255 || x < 0 || y < 0 || x % p.strideW || y % p.strideH || x / p.strideW >= wide)
        standin::Fail(here.number, r.name, "leftTop is %d, %d: the first window of no position", p.leftTopW, p.leftTopH);
    constexpr int64_t c0 = 32 / sizeof(T);
    const int64_t first = (p.c1Index * p.filterH + p.fetchFilterH) * int64_t{p.filterW} + p.fetchFilterW, taps = p.filterW * p.filterH;
    r.dst = dst.standin_place, r.a = src.standin_place;
    const int64_t fields[] = {p.l1H, p.l1W, (first + p.repeatTime + taps - 1) / taps * c0, first * c0, p.repeatTime * c0,
        y / p.strideH * wide + x / p.strideW, 16, p.strideH, p.strideW, p.filterH, p.filterW, p.dilationFilterH, p.dilationFilterW,
        p.padList[2], p.padList[3], p.padList[0], p.padList[1], static_cast<int64_t>(standin::Bits(p.padValue)), 1, 1};
    for (int i = 0; i < 20; i++) r.n[i] = fields[i];
    standin::Put(r);
}
#endif

// ---- cube
template <typename C, typename A, typename B> constexpr bool StandinMmadTypes() {
    return std::is_same_v<A, B> && ((std::is_same_v<A, half> && std::is_same_v<C, float>) || (std::is_same_v<A, int8_t> &&
        std::is_same_v<C, int32_t>) ||
                                    (standin::A2 && standin::IsAny<A, float, bfloat16_t> && std::is_same_v<C, float>));
}
inline void StandinMmad(standin::Record& r, standin::Place dst, standin::Place a, standin::Place b, const MmadParams& p, bool init) {
    if (dst.mem != standin::L0C || a.mem != standin::L0A || b.mem != standin::L0B)
        standin::Fail(r.line, r.name, "operands are in %s, %s, %s, and must be in L0C, L0A, L0B", StandinMemName(dst.mem),
            StandinMemName(a.mem), StandinMemName(b.mem));
    if (p.m > 4095 || p.n > 4095 || p.k > 4095) standin::Fail(r.line, r.name, "m, n, k are %d, %d, %d, at most 4095", p.m, p.n, p.k);
    if (p.unitFlag == 1 || p.unitFlag > 3) standin::Fail(r.line, r.name, "unitFlag is %d: 0, 2 or 3", p.unitFlag);
    if (!standin::A2 && (p.unitFlag || p.cmatrixSource)) standin::Fail(r.line, r.name,
        "unitFlag and cmatrixSource must be 0 on product %d", STANDIN_PRODUCT);
    r.dst = dst, r.a = a, r.b = b;
    const int64_t fields[] = {p.m, p.n, p.k, init, p.unitFlag};
    for (int i = 0; i < 5; i++) r.n[i] = fields[i];
    standin::Put(r);
}
template <typename C, typename A, typename B> void Mmad(const LocalTensor<C>& dst, const LocalTensor<A>& a, const LocalTensor<B>& b,
    const MmadParams& p, STANDIN_HERE) {
    static_assert(StandinMmadTypes<C, A, B>(), "stand-in: Mmad does not take these elements on this product");
    STANDIN_RECORD(Mmad, M, "Mmad");
    if (p.cmatrixSource) standin::Fail(here.number, r.name, "cmatrixSource is for a bias: the stand-in has the form with a bias tensor");
    StandinMmad(r, dst.standin_place, a.standin_place, b.standin_place, p, p.cmatrixInitVal);
}
#if STANDIN_PRODUCT == 2201
template <typename C, typename A, typename B, typename X>
void Mmad(const LocalTensor<C>& dst, const LocalTensor<A>& a, const LocalTensor<B>& b, const LocalTensor<X>& bias, const MmadParams& p,
    STANDIN_HERE) {
    static_assert(StandinMmadTypes<C, A, B>() && std::is_same_v<X, C>, "stand-in: Mmad does not take these elements on this product");
    STANDIN_RECORD(Mmad, M, "Mmad");
    if (bias.standin_place.mem != standin::BT) standin::Fail(here.number, r.name, "the bias is in %s, and must be in BT",
        StandinMemName(bias.standin_place.mem));
    if (p.cmatrixInitVal) standin::Fail(here.number, r.name,
        "what cmatrixInitVal=true means together with a bias is unknown: set it to false");
    r.c = bias.standin_place;
    StandinMmad(r, dst.standin_place, a.standin_place, b.standin_place, p, true);
}
#if STANDIN_RELEASE >= 91
inline void SetHF32Mode(HF32Mode mode, STANDIN_HERE) {
    if (mode != HF32Mode::DISABLE) standin::Fail(here.number, "SetHF32Mode", "the stand-in computes in fp32 alone");
}
inline void SetMMRowMajor() {}
inline void SetMMColumnMajor() {}
#else
inline void SetHF32Mode(bool mode, STANDIN_HERE) {
    if (mode) standin::Fail(here.number, "SetHF32Mode", "the stand-in computes in fp32 alone");
}
inline void SetMMLayoutTransform(bool) {}
#endif

// ---- L0C to GM
inline void StandinFixpipe(standin::Record& r, standin::Place dst, standin::Place src, standin::Place scale, const FixpipeParamsV220& p,
    bool rows) {
    if (dst.mem != standin::GM || src.mem != standin::L0C) standin::Fail(r.line, r.name, "the stand-in moves L0C to GM, not %s to %s",
        StandinMemName(src.mem), StandinMemName(dst.mem));
    const int64_t c0 = 16;
    if (p.nSize > 4095 || (rows && p.mSize > 8192)) standin::Fail(r.line, r.name,
        "nSize is %d (at most 4095), mSize %d (at most 8192 into rows)", p.nSize, p.mSize);
    if (p.srcStride % 16) standin::Fail(r.line, r.name, "srcStride is %d, and must be a multiple of 16", p.srcStride);
    if (rows && !p.dstStride) standin::Fail(r.line, r.name, "dstStride must not be 0");
    if (p.unitFlag && p.unitFlag != 3) standin::Fail(r.line, r.name, "unitFlag is %d: 0 or 3", p.unitFlag);
    if (p.isChannelSplit && (rows || dst.type != standin::F32 || p.unitFlag || p.nSize % 8))
        standin::Fail(r.line, r.name, "isChannelSplit is for fp32 into NZ, nSize a multiple of 8, without unitFlag");
    if (!rows && p.nSize % (p.isChannelSplit ? 8 : c0)) standin::Fail(r.line, r.name, "nSize is %d, and must be a multiple of %d into NZ",
        p.nSize, p.isChannelSplit ? 8 : 16);
    r.dst = dst, r.a = src, r.b = scale;
    const int64_t fields[] = {p.nSize, p.mSize, p.srcStride, p.dstStride, p.quantPre, static_cast<int64_t>(p.deqScalar), p.ndNum,
        p.srcNdStride, p.dstNdStride,
                              p.reluEn, p.unitFlag, p.isChannelSplit, rows};
    for (int i = 0; i < 13; i++) r.n[i] = fields[i];
    standin::Put(r);
}
template <typename T, typename U> void StandinQuant(QuantMode_t mode, standin::Line here) {
    static_assert((standin::IsAny<U, float> && standin::IsAny<T, float, half, bfloat16_t>) || (standin::IsAny<U, int32_t> &&
        standin::IsAny<T, int32_t, int8_t, uint8_t>),
                  "stand-in: Fixpipe does not convert between these elements");
    const QuantMode_t want = std::is_same_v<T, U> ? NoQuant : std::is_same_v<T, half> ? F322F16 : std::is_same_v<T, bfloat16_t> ? F322BF16
        : VREQ8;
    if (mode != want && !(want == VREQ8 && mode == REQ8)) standin::Fail(here.number, "Fixpipe",
        "quantPre is %d where these elements need %d", mode, want);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsV220& p, STANDIN_HERE) {
    STANDIN_RECORD(Fixpipe, FIX, "Fixpipe");
    StandinQuant<T, U>(p.quantPre, here);
    if (p.quantPre == VREQ8) standin::Fail(here.number, r.name, "VREQ8 needs the tensor of scales");
    StandinFixpipe(r, dst.standin_place, src.standin_place, {}, p, config.format == CO2Layout::ROW_MAJOR);
}
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const LocalTensor<uint64_t>& scales, const FixpipeParamsV220& p,
    STANDIN_HERE) {
    STANDIN_RECORD(Fixpipe, FIX, "Fixpipe");
    StandinQuant<T, U>(p.quantPre, here);
    if (p.quantPre != VREQ8) standin::Fail(here.number, r.name, "a tensor of scales is for VREQ8");
    if (scales.standin_place.mem != standin::L1) standin::Fail(here.number, r.name, "the scales are in %s, and must be in L1",
        StandinMemName(scales.standin_place.mem));
    StandinFixpipe(r, dst.standin_place, src.standin_place, scales.standin_place, p, config.format == CO2Layout::ROW_MAJOR);
}
template <typename T> void SetFixPipeConfig(const LocalTensor<T>& scales, bool isUnitFlag = false, STANDIN_HERE) {
    if (isUnitFlag) standin::Fail(here.number, "SetFixPipeConfig", "the stand-in has isUnitFlag false alone");
    standin::SetScales(scales.standin_place);
}
inline void SetFixpipeNz2ndFlag(uint16_t count, uint16_t from, uint16_t to) { standin::SetNz2Nd(count, from, to); }
template <typename T, typename U> void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyCO12DstParams& p,
    STANDIN_HERE) {
    STANDIN_RECORD(Fixpipe, FIX, "DataCopy (L0C to GM)");
    StandinQuant<T, U>(p.quantPre, here);
    FixpipeParamsV220 q;
    q.nSize = p.nSize, q.mSize = p.mSize, q.srcStride = p.srcStride, q.dstStride = p.dstStride, q.quantPre = p.quantPre;
    q.reluEn = p.reluPre != 0, q.unitFlag = p.unitFlag, q.isChannelSplit = p.channelSplit;
    r.n[13] = 1;  // scales and matrices are what the setters said
    StandinFixpipe(r, dst.standin_place, src.standin_place, {}, q, p.nz2ndEn);
}
#endif

// ---- L0C to UB
#if STANDIN_PRODUCT != 2201
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& p, const DataCopyEnhancedParams& e,
    STANDIN_HERE) {
    static_assert((std::is_same_v<U, float> && standin::IsAny<T, float, half>) || (std::is_same_v<U, int32_t> && std::is_same_v<T,
        int32_t>) || (std::is_same_v<U, half> && std::is_same_v<T, half>),
                  "stand-in: DataCopy from L0C does not convert between these elements");
    STANDIN_RECORD(Drain, V, "DataCopy (L0C to UB)");
    if (src.standin_place.mem != standin::L0C || dst.standin_place.mem != standin::UB)
        standin::Fail(here.number, r.name, "the enhanced form moves L0C to UB, not %s to %s", StandinMemName(src.standin_place.mem),
            StandinMemName(dst.standin_place.mem));
    if (e.blockMode != BlockMode::BLOCK_MODE_MATRIX || e.deqScale != DeqScale::DEQ_NONE) standin::Fail(here.number, r.name,
        "the stand-in has BLOCK_MODE_MATRIX with DEQ_NONE alone");
    r.dst = dst.standin_place, r.a = src.standin_place;
    const int64_t fields[] = {p.blockCount, p.blockLen, p.srcGap, p.dstGap, e.isRelu};
    for (int i = 0; i < 5; i++) r.n[i] = fields[i];
    standin::Put(r);
}
#endif

}  // namespace AscendC
