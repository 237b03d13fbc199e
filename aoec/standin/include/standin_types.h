// Elements, tensors, positions and parameter structs of the stand-in. Names and orders are those of the public documentation pages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "standin_record.h"

#ifdef STANDIN_RUNTIME  // compiled once for all products: a kernel says its own
extern "C" const int32_t standin_kernel_product;
#define STANDIN_PRODUCT standin_kernel_product
#else
#ifndef STANDIN_PRODUCT
#define STANDIN_PRODUCT 2201
#endif
#ifndef STANDIN_RELEASE
#define STANDIN_RELEASE 91
#endif
#if STANDIN_PRODUCT != 2201 && STANDIN_PRODUCT != 2002 && STANDIN_PRODUCT != 1001
#error "the stand-in has the products 2201 (A2, A3), 2002 (310P) and 1001 (910A)"
#endif
#if STANDIN_RELEASE != 81 && STANDIN_RELEASE != 85 && STANDIN_RELEASE != 91
#error "the stand-in has the releases 81, 85 and 91"
#endif
extern "C" {
extern const int32_t standin_kernel_product __attribute__((weak, visibility("hidden")));
const int32_t standin_kernel_product = STANDIN_PRODUCT;
}
#endif

#define __gm__
#define __ubuf__
#define __cbuf__
#define __global__ __attribute__((visibility("default"), used))
#define __aicore__
using GM_ADDR = uint8_t*;

#if STANDIN_RELEASE >= 91
#define __vector__ __attribute__((section("standin_vector"), used))
#define __cube__ __attribute__((section("standin_cube"), used))
#define __mix__(cubes, vectors) __attribute__((section("standin_mix_" #cubes "_" #vectors), used))
#endif

// ---- reals of 16 bits
namespace standin {
inline float FloatOf(uint32_t bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline uint32_t BitsOf(float x) { uint32_t bits; std::memcpy(&bits, &x, 4); return bits; }
inline float HalfToFloat(uint16_t h) {
    uint32_t low = h & 0x7FFFu, sign = (h & 0x8000u) << 16, moved = low << 13;
    uint32_t scaled = BitsOf(FloatOf(moved) * 5192296858534827628530496329220096.0f);  // 2 ** 112
    return FloatOf((low >= 0x7C00u ? moved | 0x7F800000u : scaled) | sign);
}
inline uint16_t FloatToHalf(float x) {
    uint32_t bits = BitsOf(x), sign = bits & 0x80000000u, size = bits ^ sign, out;
    if (size >= (143u << 23)) out = size > 0x7F800000u ? 0x7E00u : 0x7C00u;
    else if (size < (113u << 23)) out = BitsOf(FloatOf(size) + 0.5f) - (126u << 23);
    else out = (size + 0xC8000FFFu + ((size >> 13) & 1u)) >> 13;
    return static_cast<uint16_t>(out | (sign >> 16));
}
inline float BfloatToFloat(uint16_t h) { return FloatOf(static_cast<uint32_t>(h) << 16); }
inline uint16_t FloatToBfloat(float x) {
    uint32_t bits = BitsOf(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
}  // namespace standin

struct half {
    uint16_t bits;
    half() = default;
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    half(T x) : bits(standin::FloatToHalf(static_cast<float>(x))) {}
    operator float() const { return standin::HalfToFloat(bits); }
};
struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() = default;
    template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
    bfloat16_t(T x) : bits(standin::FloatToBfloat(static_cast<float>(x))) {}
    operator float() const { return standin::BfloatToFloat(bits); }
};

namespace standin {
template <typename T> constexpr Type TypeOf() {
    using E = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<E, float>) return F32;
    else if constexpr (std::is_same_v<E, half>) return F16;
    else if constexpr (std::is_same_v<E, bfloat16_t>) return BF16;
    else if constexpr (std::is_same_v<E, bool>) return U8;
    else {
        static_assert(std::is_integral_v<E>, "stand-in: elements are float, half, bfloat16_t or whole numbers");
        constexpr bool sign = std::is_signed_v<E>;
        return sizeof(E) == 1 ? (sign ? I8 : U8) : sizeof(E) == 2 ? (sign ? I16 : U16) : sizeof(E) == 4 ? (sign ? I32 : U32) : (sign ? I64
            : U64);
    }
}
template <typename T, typename... Of> constexpr bool IsAny = (std::is_same_v<T, Of> || ...);
template <typename T> uint64_t Bits(T x) {
    uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof(T));
    return bits;
}
#ifdef STANDIN_RUNTIME
static const bool A2 = STANDIN_PRODUCT == 2201, P310 = STANDIN_PRODUCT == 2002, A910 = STANDIN_PRODUCT == 1001;
#else
constexpr bool A2 = STANDIN_PRODUCT == 2201, P310 = STANDIN_PRODUCT == 2002, A910 = STANDIN_PRODUCT == 1001;
#endif
template <typename... T> constexpr bool Never = false;
}  // namespace standin

// ---- names that lie outside the namespace
enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };
using event_t = int32_t;
constexpr event_t EVENT_ID0 = 0, EVENT_ID1 = 1, EVENT_ID2 = 2, EVENT_ID3 = 3, EVENT_ID4 = 4, EVENT_ID5 = 5, EVENT_ID6 = 6, EVENT_ID7 = 7;
enum QuantMode_t { NoQuant, F322F16, F322BF16, REQ8, VREQ8 };
enum class KernelMetaType : int32_t {
    KERNEL_TYPE_AIV_ONLY = 1, KERNEL_TYPE_AIC_ONLY, KERNEL_TYPE_MIX_AIV_1_0, KERNEL_TYPE_MIX_AIC_1_0, KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2, KERNEL_TYPE_AICORE, KERNEL_TYPE_MIX_VECTOR_CORE
};
#if STANDIN_PRODUCT != 1001
#define KERNEL_TASK_TYPE_DEFAULT(kind) \
    do { static const int32_t standin_kind_of_this_kernel __attribute__((section("standin_kind"), used)) = \
             static_cast<int32_t>(::KernelMetaType::kind); } while (false)
#endif
#define ASCEND_IS_AIC (::standin::IsCube())
#define ASCEND_IS_AIV (::standin::IsVector())

namespace AscendC {

enum class TPosition : uint8_t { GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, C2PIPE2GM, MAX };
enum class HardEvent : uint8_t {
#define STANDIN_FROM(x) x##_S, x##_V, x##_M, x##_MTE1, x##_MTE2, x##_MTE3, x##_FIX
    STANDIN_FROM(S), STANDIN_FROM(V), STANDIN_FROM(M), STANDIN_FROM(MTE1), STANDIN_FROM(MTE2), STANDIN_FROM(MTE3), STANDIN_FROM(FIX)
#undef STANDIN_FROM
};
enum class MaskMode : uint8_t { NORMAL, COUNTER };
enum class RoundMode : uint8_t { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX, ORDER_ONLY_VALUE };
enum class BlockMode : uint8_t { BLOCK_MODE_NORMAL, BLOCK_MODE_MATRIX };
enum class DeqScale : uint8_t { DEQ_NONE };
enum class FmatrixMode : uint8_t { FMATRIX_LEFT, FMATRIX_RIGHT };
enum class CO2Layout : uint8_t { NZ, ROW_MAJOR };
#if STANDIN_RELEASE >= 91
enum class HF32Mode : uint8_t { DISABLE, ENABLE };
enum class ReduceType : uint8_t { SUM, MAX, MIN };
#endif
constexpr uint64_t MASK_PLACEHOLDER = 0;
using ::QuantMode_t;
using ::half;

struct FixpipeConfig {
    CO2Layout format;
};
constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ}, CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};
struct IsResetLoad3dConfig {
    bool isSetFMatrix, isSetPadding;
};
constexpr IsResetLoad3dConfig STANDIN_RESETS_LOAD3D = {true, true};

// ---- parameters
struct DataCopyParams {
    uint16_t blockCount = 1, blockLen = 0;
    union { uint16_t srcGap = 0, srcStride; };
    union { uint16_t dstGap = 0, dstStride; };
    DataCopyParams() {}
    DataCopyParams(uint16_t count, uint16_t length, uint16_t src, uint16_t dst)
        : blockCount(count), blockLen(length), srcGap(src), dstGap(dst) {}
};
struct DataCopyEnhancedParams {
    BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
    DeqScale deqScale = DeqScale::DEQ_NONE;
    uint64_t deqValue = 0;
    uint8_t sidStoreMode = 0;
    bool isRelu = false;
};
struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;
    int64_t srcStride = 0;
    uint32_t dstStride = 0, rsv = 0;
};
template <typename T> struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    T paddingValue = T();
};
struct Nd2NzParams {
    uint16_t ndNum = 1, nValue = 0;
    uint32_t dValue = 0;
    uint64_t srcNdMatrixStride = 0;
    uint64_t srcDValue = 0;
    uint16_t dstNzC0Stride = 0, dstNzNStride = 1;
    uint64_t dstNzMatrixStride = 0;
};
struct LoadData2DParams {
    uint16_t startIndex = 0;
    uint8_t repeatTimes = 0;
    uint16_t srcStride = 0;
    uint8_t sid = 0;
    uint16_t dstGap = 0;
    bool ifTranspose = false;
    uint8_t addrMode = 0;
};
struct LoadData2dTransposeParams {
    uint16_t startIndex = 0;
    uint8_t repeatTimes = 0;
    uint16_t srcStride = 0, dstGap = 0, dstFracGap = 0;
    uint8_t addrMode = 0;
};
template <typename T> struct LoadData3DParamsV2 {
    uint8_t padList[4] = {0, 0, 0, 0};
    uint16_t l1H = 0, l1W = 0, channelSize = 0, kExtension = 0, mExtension = 0, kStartPt = 0, mStartPt = 0;
    uint8_t strideW = 1, strideH = 1, filterW = 1, filterH = 1, dilationFilterW = 1, dilationFilterH = 1;
    bool enTranspose = false, enSmallK = false;
    T padValue = T();
    bool filterSizeW = false, filterSizeH = false, fMatrixCtrl = false;
};
template <typename T> struct LoadData3DParamsV1 {
    uint8_t padList[4] = {0, 0, 0, 0};
    uint16_t l1H = 0, l1W = 0, c1Index = 0;
    uint8_t fetchFilterW = 0, fetchFilterH = 0;
    int16_t leftTopW = 0, leftTopH = 0;
    uint8_t strideW = 1, strideH = 1, filterW = 1, filterH = 1, dilationFilterW = 1, dilationFilterH = 1;
    uint8_t jumpStride = 1, repeatMode = 0, repeatTime = 1, cSize = 0;
    T padValue = T();
};
struct MmadParams {
    uint16_t m = 0, n = 0, k = 0;
    bool cmatrixInitVal = true, cmatrixSource = false;
    uint8_t unitFlag = 0;
    bool kDirectionAlign = false;
};
struct FixpipeParamsV220 {
    uint16_t nSize = 0, mSize = 0, srcStride = 0;
    uint32_t dstStride = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    uint64_t deqScalar = 0;
    uint16_t ndNum = 1, srcNdStride = 0;
    uint32_t dstNdStride = 0;
    bool reluEn = false;
    uint8_t unitFlag = 0;
    bool isChannelSplit = false;
};
struct DataCopyCO12DstParams {
    uint8_t sid = 0;
    uint16_t nSize = 0, mSize = 0;
    uint32_t dstStride = 0;
    uint16_t srcStride = 0;
    uint8_t unitFlag = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    uint8_t reluPre = 0;
    bool channelSplit = false, nz2ndEn = false;
};
struct UnaryRepeatParams {
    uint16_t dstBlkStride = 1, srcBlkStride = 1;
    uint16_t dstRepStride = 8, srcRepStride = 8;
};
struct BinaryRepeatParams {
    uint16_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1;
    uint16_t dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
};
struct CopyRepeatParams {
    uint16_t dstStride = 1, srcStride = 1, dstRepeatSize = 8, srcRepeatSize = 8;
};
struct BrcbRepeatParams {
    uint16_t dstBlkStride = 1, dstRepStride = 8;
};
struct TransDataTo5HDParams {
    bool dstHighHalf = false, srcHighHalf = false;
    uint8_t repeatTimes = 1;
    uint16_t dstRepStride = 0, srcRepStride = 0;
};
struct GatherMaskParams {
    uint16_t src0BlockStride = 1, repeatTimes = 1, src0RepeatStride = 8, src1RepeatStride = 0;
};

}  // namespace AscendC
