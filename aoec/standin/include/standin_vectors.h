// Vector calls, in both forms: the first n elements, or repeats under a mask.
#pragma once
#include "standin_copies.h"

namespace AscendC {

// n: 0 repeats, 1-3 block strides (dst, src0, src1), 4-6 repeat strides, 7 mode, 20 how the mask is said, 21 lanes of a repeat
enum StandinMask { STANDIN_FIRST, STANDIN_BITS, STANDIN_REGISTER, STANDIN_COUNT };
template <bool isSetMask> void StandinPutMasked(standin::Record& r, uint64_t mask) {
    r.mask[0] = mask, r.n[20] = isSetMask ? STANDIN_FIRST : STANDIN_REGISTER;
    standin::ApplyMask(r), standin::Put(r);
}
template <bool isSetMask> void StandinPutMasked(standin::Record& r, const uint64_t (&mask)[2]) {
    r.mask[0] = mask[0], r.mask[1] = mask[1], r.n[20] = isSetMask ? STANDIN_BITS : STANDIN_REGISTER;
    standin::ApplyMask(r), standin::Put(r);
}
inline void StandinPutCount(standin::Record& r, int64_t count) {
    if (count < 0) standin::Fail(r.line, r.name, "count is %lld", static_cast<long long>(count));
    r.mask[0] = static_cast<uint64_t>(count), r.n[20] = STANDIN_COUNT;
    standin::ApplyMask(r), standin::Put(r);
}
inline void StandinStrides(standin::Record& r, int64_t repeat, int64_t lanes, const BinaryRepeatParams& p) {
    const int64_t fields[] = {repeat, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride, p.dstRepStride, p.src0RepStride, p.src1RepStride};
    for (int i = 0; i < 7; i++) r.n[i] = fields[i];
    r.n[21] = lanes;
}
inline void StandinStrides(standin::Record& r, int64_t repeat, int64_t lanes, const UnaryRepeatParams& p) {
    StandinStrides(r, repeat, lanes, BinaryRepeatParams{p.dstBlkStride, p.srcBlkStride, 1, p.dstRepStride, p.srcRepStride, 0});
}
// the strides of elements that lie side by side, where one type may be narrower than the widest
inline BinaryRepeatParams StandinClose(size_t dst, size_t src, size_t widest) {
    const auto step = [&](size_t size) { return static_cast<uint16_t>(8 * size / widest); };
    return {1, 1, 1, step(dst), step(src), step(src)};
}

#define STANDIN_BINARY(NAME, GOOD) \
    template <typename T, bool isSetMask = true, typename MASK> \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const MASK& mask, uint8_t repeatTime, \
              const BinaryRepeatParams& params, STANDIN_HERE) { \
        static_assert(GOOD, "stand-in: " #NAME " does not take elements of this type on this product"); \
        STANDIN_RECORD(Binary, V, #NAME); \
        r.word = standin::Word::NAME, r.dst = dst.standin_place, r.a = src0.standin_place, r.b = src1.standin_place; \
        StandinStrides(r, repeatTime, 256 / sizeof(T), params), StandinPutMasked<isSetMask>(r, mask); \
    } \
    template <typename T> \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int32_t count, STANDIN_HERE) { \
        static_assert(GOOD, "stand-in: " #NAME " does not take elements of this type on this product"); \
        STANDIN_RECORD(Binary, V, #NAME); \
        r.word = standin::Word::NAME, r.dst = dst.standin_place, r.a = src0.standin_place, r.b = src1.standin_place; \
        StandinStrides(r, 1, 256 / sizeof(T), BinaryRepeatParams()), StandinPutCount(r, count); \
    }
#define STANDIN_REAL standin::IsAny<T, half, float>
STANDIN_BINARY(Add, (standin::IsAny<T, half, float, int32_t> || (!standin::A910 && standin::IsAny<T, int16_t>)))
STANDIN_BINARY(Sub, (standin::IsAny<T, half, float, int32_t> || (!standin::A910 && standin::IsAny<T, int16_t>)))
STANDIN_BINARY(Mul, (standin::IsAny<T, half, float, int32_t> || (!standin::A910 && standin::IsAny<T, int16_t>)))
STANDIN_BINARY(Max, (standin::IsAny<T, half, float, int32_t> || (!standin::A910 && standin::IsAny<T, int16_t>)))
STANDIN_BINARY(Min, (standin::IsAny<T, half, float, int32_t> || (!standin::A910 && standin::IsAny<T, int16_t>)))
STANDIN_BINARY(Div, (STANDIN_REAL))
STANDIN_BINARY(And, (standin::IsAny<T, int16_t, uint16_t>))
STANDIN_BINARY(Or, (standin::IsAny<T, int16_t, uint16_t>))
#if STANDIN_PRODUCT != 1001
STANDIN_BINARY(AddRelu, (standin::IsAny<T, half, float, int16_t>))
template <typename T, typename U, bool isSetMask = true, typename MASK>
void AddReluCast(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, const MASK& mask, uint8_t repeatTime,
                 const BinaryRepeatParams& params, STANDIN_HERE) {
    static_assert(std::is_same_v<T, half> && std::is_same_v<U, float>, "stand-in: AddReluCast makes half of float alone");
    STANDIN_RECORD(AddReluCast, V, "AddReluCast");
    r.dst = dst.standin_place, r.a = src0.standin_place, r.b = src1.standin_place;
    StandinStrides(r, repeatTime, 64, params), StandinPutMasked<isSetMask>(r, mask);
}
template <typename T, typename U>
void AddReluCast(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, uint32_t count, STANDIN_HERE) {
    static_assert(std::is_same_v<T, half> && std::is_same_v<U, float>, "stand-in: AddReluCast makes half of float alone");
    STANDIN_RECORD(AddReluCast, V, "AddReluCast");
    r.dst = dst.standin_place, r.a = src0.standin_place, r.b = src1.standin_place;
    StandinStrides(r, 1, 64, StandinClose(2, 4, 4)), StandinPutCount(r, count);
}
#endif

#define STANDIN_UNARY(NAME, GOOD) \
    template <typename T, bool isSetMask = true, typename MASK> \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const MASK& mask, uint8_t repeatTime, const UnaryRepeatParams& params, \
              STANDIN_HERE) { \
        static_assert(GOOD, "stand-in: " #NAME " does not take elements of this type on this product"); \
        STANDIN_RECORD(Unary, V, #NAME); \
        r.word = standin::Word::NAME, r.dst = dst.standin_place, r.a = src.standin_place; \
        StandinStrides(r, repeatTime, 256 / sizeof(T), params), StandinPutMasked<isSetMask>(r, mask); \
    } \
    template <typename T> void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t count, STANDIN_HERE) { \
        static_assert(GOOD, "stand-in: " #NAME " does not take elements of this type on this product"); \
        STANDIN_RECORD(Unary, V, #NAME); \
        r.word = standin::Word::NAME, r.dst = dst.standin_place, r.a = src.standin_place; \
        StandinStrides(r, 1, 256 / sizeof(T), UnaryRepeatParams()), StandinPutCount(r, count); \
    }
STANDIN_UNARY(Exp, (STANDIN_REAL))
STANDIN_UNARY(Ln, (STANDIN_REAL))
STANDIN_UNARY(Sqrt, (STANDIN_REAL))
STANDIN_UNARY(Rsqrt, (STANDIN_REAL))
STANDIN_UNARY(Reciprocal, (STANDIN_REAL))
STANDIN_UNARY(Abs, (STANDIN_REAL))
STANDIN_UNARY(Relu, (std::is_same_v<T, half> || (!standin::A910 && standin::IsAny<T, float, int32_t>)))
STANDIN_UNARY(Not, (standin::IsAny<T, int16_t, uint16_t>))

#define STANDIN_SCALAR(NAME, GOOD) \
    template <typename T, bool isSetMask = true, typename MASK> \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const std::common_type_t<T>& scalar, const MASK& mask, \
        uint8_t repeatTime, \
              const UnaryRepeatParams& params, STANDIN_HERE) { \
        static_assert(GOOD, "stand-in: " #NAME " does not take elements of this type on this product"); \
        STANDIN_RECORD(Scalar, V, #NAME); \
        r.word = standin::Word::NAME, r.dst = dst.standin_place, r.a = src.standin_place, r.bits = standin::Bits(scalar); \
        StandinStrides(r, repeatTime, 256 / sizeof(T), params), StandinPutMasked<isSetMask>(r, mask); \
    } \
    template <typename T> \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, const std::common_type_t<T>& scalar, int32_t count, STANDIN_HERE) { \
        static_assert(GOOD, "stand-in: " #NAME " does not take elements of this type on this product"); \
        STANDIN_RECORD(Scalar, V, #NAME); \
        r.word = standin::Word::NAME, r.dst = dst.standin_place, r.a = src.standin_place, r.bits = standin::Bits(scalar); \
        StandinStrides(r, 1, 256 / sizeof(T), UnaryRepeatParams()), StandinPutCount(r, count); \
    }
STANDIN_SCALAR(Adds, (STANDIN_REAL || (!standin::A910 && standin::IsAny<T, int16_t, int32_t>)))
STANDIN_SCALAR(Muls, (STANDIN_REAL || (!standin::A910 && standin::IsAny<T, int16_t, int32_t>)))
#if STANDIN_PRODUCT != 1001
STANDIN_SCALAR(Maxs, (standin::IsAny<T, half, float, int16_t, int32_t>))
STANDIN_SCALAR(Mins, (standin::IsAny<T, half, float, int16_t, int32_t>))
#endif
#if STANDIN_PRODUCT == 2201
STANDIN_SCALAR(ShiftLeft, (standin::IsAny<T, int16_t, uint16_t, int32_t, uint32_t>))
STANDIN_SCALAR(ShiftRight, (standin::IsAny<T, int16_t, uint16_t, int32_t, uint32_t>))
template <typename T, bool isSetMask = true, typename MASK>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const std::common_type_t<T>& scalar, const MASK& mask,
    uint8_t repeatTime,
                const UnaryRepeatParams& params, bool roundEn, STANDIN_HERE) {
    if (roundEn) standin::Fail(here.number, "ShiftRight", "the stand-in has roundEn false alone");
    ShiftRight<T, isSetMask>(dst, src, scalar, mask, repeatTime, params, here);
}
#endif

// ---- casts: the pairs of each product and, of each, its modes
constexpr unsigned StandinModes(standin::Type to, standin::Type from) {
    using namespace standin;
    constexpr unsigned none = 1u, five = 2u | 4u | 8u | 16u | 32u, odd = 64u, any = 127u, whatever = 128u;
    if (A2) {
        if ((from == F16 && to == F32) || (from == BF16 && to == F32) || ((from == I8 || from == U8) && to == F16) || (from == I16 &&
            to == F32) || (from == I64 && to == I32) ||
            (from == I32 && (to == I64 || to == I16)))
            return none;
        if (from == F32 && to == F16) return any;
        if (from == F32 && (to == BF16 || to == I32 || to == I16 || to == I64 || to == F32)) return five;
        if (from == F16 && (to == I32 || to == I16 || to == I8 || to == U8)) return five;
        if ((from == I32 || from == I64) && to == F32) return five;
        if (from == I32 && to == F16) return whatever;
        return 0;
    }
    if (((from == I8 || from == U8 || from == I16) && to == F16) || (from == F16 && to == F32) || (from == I32 && to == F32)) return none;
    if (from == F32 && to == F16) return odd | none;
    if (from == F16 && (to == I8 || to == U8)) return none | 4u | 8u | 16u | 32u;
    if (from == F16 && to == I32) return five;
    if (from == F32 && to == I64) return five;
    if (P310 && from == I32 && to == I16) return none;
    if (P310 && from == I32 && to == F16) return whatever;
    if (P310 && from == F16 && to == I16) return 2u;
    return 0;
}
template <typename T, typename U> standin::Record StandinCast(const LocalTensor<T>& dst, const LocalTensor<U>& src, RoundMode mode,
    standin::Line here) {
    constexpr unsigned modes = StandinModes(standin::TypeOf<T>(), standin::TypeOf<U>());
    static_assert(modes != 0, "stand-in: Cast has no such pair of elements on this product");
    STANDIN_RECORD(Cast, V, "Cast");
    if (!(modes & 128u) && !(modes >> static_cast<int>(mode) & 1u))
        standin::Fail(here.number, r.name, "%s to %s has no round mode %d on product %d", standin::TypeName(standin::TypeOf<U>()),
            standin::TypeName(standin::TypeOf<T>()), static_cast<int>(mode), STANDIN_PRODUCT);
    r.dst = dst.standin_place, r.a = src.standin_place, r.n[7] = static_cast<int64_t>(mode);
    return r;
}
template <typename T, typename U, bool isSetMask = true, typename MASK>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& mode, const MASK& mask, uint8_t repeatTime,
    const UnaryRepeatParams& params, STANDIN_HERE) {
    standin::Record r = StandinCast(dst, src, mode, here);
    StandinStrides(r, repeatTime, 256 / (sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U)), params), StandinPutMasked<isSetMask>(r, mask);
}
template <typename T, typename U> void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& mode, uint32_t count,
    STANDIN_HERE) {
    standin::Record r = StandinCast(dst, src, mode, here);
    constexpr size_t widest = sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U);
    StandinStrides(r, 1, 256 / widest, StandinClose(sizeof(T), sizeof(U), widest)), StandinPutCount(r, count);
}

// ---- comparisons and selections
template <typename T> constexpr bool StandinCompares(CMPMODE) { return standin::IsAny<T, half, float> || (standin::A2 && std::is_same_v<T,
    int32_t>); }
template <typename T, typename U, bool isSetMask = true, typename MASK>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, const MASK&,
    uint8_t repeatTime, const BinaryRepeatParams& params, STANDIN_HERE) {
    static_assert(StandinCompares<T>(CMPMODE::EQ) && sizeof(U) == 1, "stand-in: Compare does not take these elements on this product");
    STANDIN_RECORD(Compare, V, "Compare");
    if (std::is_same_v<T, int32_t> && mode != CMPMODE::EQ) standin::Fail(here.number, r.name, "int32 has the mode EQ alone");
    r.dst = dst.standin_place, r.a = src0.standin_place, r.b = src1.standin_place, r.n[7] = static_cast<int64_t>(mode);
    StandinStrides(r, repeatTime, 256 / sizeof(T), params), standin::Put(r);  // whole repeats: the mask does not count
}
template <typename T, typename U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode, uint32_t count,
    STANDIN_HERE) {
    if (count * sizeof(T) % 256) standin::Fail(here.number, "Compare",
        "%u elements are no multiple of 256 bytes, and the rest would be skipped", count);
    Compare(dst, src0, src1, mode, uint64_t{64}, static_cast<uint8_t>(count * sizeof(T) / 256), BinaryRepeatParams(), here);
}
#if STANDIN_PRODUCT != 1001
template <typename T, typename U, bool isSetMask = true, typename MASK>
void StandinCompares(const char* name, const LocalTensor<U>& dst, const LocalTensor<T>& src, T scalar, CMPMODE mode, uint8_t repeatTime,
    const UnaryRepeatParams& params, standin::Line here) {
    static_assert(StandinCompares<T>(CMPMODE::EQ) && sizeof(U) == 1, "stand-in: Compares does not take these elements on this product");
    STANDIN_RECORD(CompareScalar, V, name);
    if (std::is_same_v<T, int32_t> && mode != CMPMODE::EQ) standin::Fail(here.number, r.name, "int32 has the mode EQ alone");
    r.dst = dst.standin_place, r.a = src.standin_place, r.bits = standin::Bits(scalar), r.n[7] = static_cast<int64_t>(mode);
    StandinStrides(r, repeatTime, 256 / sizeof(T), params), standin::Put(r);
}
#if STANDIN_RELEASE >= 91
#define STANDIN_COMPARES Compares
#else
#define STANDIN_COMPARES CompareScalar
#endif
template <typename T, typename U, bool isSetMask = true, typename MASK>
void STANDIN_COMPARES(const LocalTensor<U>& dst, const LocalTensor<T>& src, const std::common_type_t<T>& scalar, CMPMODE mode, const MASK&,
    uint8_t repeatTime, const UnaryRepeatParams& params, STANDIN_HERE) {
    StandinCompares<T, U, isSetMask, MASK>("Compares", dst, src, scalar, mode, repeatTime, params, here);
}
template <typename T, typename U>
void STANDIN_COMPARES(const LocalTensor<U>& dst, const LocalTensor<T>& src, const std::common_type_t<T>& scalar, CMPMODE mode,
    uint32_t count, STANDIN_HERE) {
    if (count * sizeof(T) % 256) standin::Fail(here.number, "Compares",
        "%u elements are no multiple of 256 bytes, and the rest would be skipped", count);
    StandinCompares<T, U, true, uint64_t>("Compares", dst, src, scalar, mode, static_cast<uint8_t>(count * sizeof(T) / 256),
        UnaryRepeatParams(), here);
}
#endif
inline void StandinSelect(standin::Record& r, SELMODE mode) {
    if (standin::A910 && mode != SELMODE::VSEL_CMPMASK_SPR) standin::Fail(r.line, r.name, "product 1001 has VSEL_CMPMASK_SPR alone");
    r.n[7] = static_cast<int64_t>(mode);
}
template <typename T, typename U, bool isSetMask = true, typename MASK>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits, const LocalTensor<T>& src0, const LocalTensor<T>& src1, SELMODE mode,
    const MASK& mask, uint8_t repeatTime, const BinaryRepeatParams& params, STANDIN_HERE) {
    static_assert(STANDIN_REAL, "stand-in: Select takes half and float");
    STANDIN_RECORD(Select, V, "Select");
    if (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE) standin::Fail(here.number, r.name, "VSEL_TENSOR_SCALAR_MODE needs a scalar");
    StandinSelect(r, mode);
    r.dst = dst.standin_place, r.a = src0.standin_place, r.b = src1.standin_place, r.c = bits.standin_place;
    StandinStrides(r, repeatTime, 256 / sizeof(T), params), StandinPutMasked<isSetMask>(r, mask);
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits, const LocalTensor<T>& src0, const LocalTensor<T>& src1, SELMODE mode,
    uint32_t count, STANDIN_HERE) {
    static_assert(STANDIN_REAL, "stand-in: Select takes half and float");
    STANDIN_RECORD(Select, V, "Select");
    if (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE) standin::Fail(here.number, r.name, "VSEL_TENSOR_SCALAR_MODE needs a scalar");
    StandinSelect(r, mode);
    r.dst = dst.standin_place, r.a = src0.standin_place, r.b = src1.standin_place, r.c = bits.standin_place;
    StandinStrides(r, 1, 256 / sizeof(T), BinaryRepeatParams()), StandinPutCount(r, count);
}
#if STANDIN_PRODUCT != 1001
template <typename T, typename U, bool isSetMask = true, typename MASK>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits, const LocalTensor<T>& src0, const std::common_type_t<T>& scalar,
    SELMODE mode, const MASK& mask, uint8_t repeatTime, const BinaryRepeatParams& params, STANDIN_HERE) {
    static_assert(STANDIN_REAL, "stand-in: Select takes half and float");
    STANDIN_RECORD(Select, V, "Select");
    if (mode != SELMODE::VSEL_TENSOR_SCALAR_MODE) standin::Fail(here.number, r.name, "a scalar is for VSEL_TENSOR_SCALAR_MODE");
    StandinSelect(r, mode);
    r.dst = dst.standin_place, r.a = src0.standin_place, r.c = bits.standin_place, r.bits = standin::Bits(scalar);
    StandinStrides(r, repeatTime, 256 / sizeof(T), params), StandinPutMasked<isSetMask>(r, mask);
}
template <typename T, typename U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits, const LocalTensor<T>& src0, const std::common_type_t<T>& scalar,
    SELMODE mode, uint32_t count, STANDIN_HERE) {
    static_assert(STANDIN_REAL, "stand-in: Select takes half and float");
    STANDIN_RECORD(Select, V, "Select");
    if (mode != SELMODE::VSEL_TENSOR_SCALAR_MODE) standin::Fail(here.number, r.name, "a scalar is for VSEL_TENSOR_SCALAR_MODE");
    StandinSelect(r, mode);
    r.dst = dst.standin_place, r.a = src0.standin_place, r.c = bits.standin_place, r.bits = standin::Bits(scalar);
    StandinStrides(r, 1, 256 / sizeof(T), BinaryRepeatParams()), StandinPutCount(r, count);
}
#endif

// ---- fills and rearrangement
template <typename T, bool isSetMask = true, typename MASK>
void Duplicate(const LocalTensor<T>& dst, const std::common_type_t<T>& scalar, const MASK& mask, uint8_t repeatTime,
    uint16_t dstBlockStride, uint8_t dstRepeatStride, STANDIN_HERE) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "stand-in: Duplicate takes elements of 16 and 32 bits");
    STANDIN_RECORD(Duplicate, V, "Duplicate");
    r.dst = dst.standin_place, r.bits = standin::Bits(scalar);
    StandinStrides(r, repeatTime, 256 / sizeof(T), UnaryRepeatParams{dstBlockStride, 1, dstRepeatStride, 0}),
        StandinPutMasked<isSetMask>(r, mask);
}
template <typename T> void Duplicate(const LocalTensor<T>& dst, const std::common_type_t<T>& scalar, int32_t count, STANDIN_HERE) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "stand-in: Duplicate takes elements of 16 and 32 bits");
    STANDIN_RECORD(Duplicate, V, "Duplicate");
    r.dst = dst.standin_place, r.bits = standin::Bits(scalar);
    StandinStrides(r, 1, 256 / sizeof(T), UnaryRepeatParams()), StandinPutCount(r, count);
}
#if STANDIN_PRODUCT == 2201
template <typename T, bool isSetMask = true, typename MASK>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const MASK& mask, uint8_t repeatTime, const CopyRepeatParams& p,
    STANDIN_HERE) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "stand-in: Copy takes elements of 16 and 32 bits");
    STANDIN_RECORD(Copy, V, "Copy");
    if (p.dstRepeatSize > 4095 || p.srcRepeatSize > 4095) standin::Fail(here.number, r.name, "repeat strides are at most 4095");
    r.dst = dst.standin_place, r.a = src.standin_place;
    StandinStrides(r, repeatTime, 256 / sizeof(T), UnaryRepeatParams{p.dstStride, p.srcStride, p.dstRepeatSize, p.srcRepeatSize}),
        StandinPutMasked<isSetMask>(r, mask);
}
#endif
#if STANDIN_PRODUCT != 1001
template <typename T> void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint8_t repeatTime, const BrcbRepeatParams& p,
    STANDIN_HERE) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "stand-in: Brcb takes elements of 16 and 32 bits");
    STANDIN_RECORD(Brcb, V, "Brcb");
    if (!p.dstBlkStride) standin::Fail(here.number, r.name, "what dstBlkStride 0 means is not defined");
    r.dst = dst.standin_place, r.a = src.standin_place;
    const int64_t fields[] = {repeatTime, p.dstBlkStride, p.dstRepStride};
    for (int i = 0; i < 3; i++) r.n[i] = fields[i];
    standin::Put(r);
}
// mask: with reduceMode the elements of each row that are looked at
template <typename T, typename P> void StandinGatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src, const P& pattern,
    bool reduceMode, uint32_t mask, const GatherMaskParams& p, uint64_t& rsvdCnt, standin::Line here) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "stand-in: GatherMask takes elements of 16 and 32 bits");
    STANDIN_RECORD(GatherMask, V, "GatherMask");
    r.dst = dst.standin_place, r.a = src.standin_place;
    int64_t kind = 0, each = 256 / sizeof(T), repeats = p.repeatTimes;
    if constexpr (std::is_same_v<P, uint8_t>) {
        kind = pattern;
        if (kind < 1 || kind > 7 || (standin::P310 && kind == 7)) standin::Fail(here.number, r.name, "product %d has no pattern %d",
            STANDIN_PRODUCT, static_cast<int>(kind));
    } else {
        r.b = pattern.standin_place;
    }
    if (reduceMode && standin::P310) repeats = (mask + each - 1) / each, each = mask;  // there the mask counts the elements of all rows
    else if (reduceMode) each = mask;
    const int64_t total = reduceMode && standin::P310 ? mask : each * repeats;
    rsvdCnt = kind == 7 ? total : kind > 2 ? total / 4 : kind ? total / 2 : 0;
    const int64_t fields[] = {kind, each, repeats, p.src0BlockStride, p.src0RepeatStride, p.src1RepeatStride, reduceMode && standin::P310};
    for (int i = 0; i < 7; i++) r.n[i] = fields[i];
    standin::Put(r);
    standin::SetCounter(false);
}
template <typename T> void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint8_t pattern, bool reduceMode,
    uint32_t mask, const GatherMaskParams& p, uint64_t& rsvdCnt, STANDIN_HERE) {
    StandinGatherMask(dst, src, pattern, reduceMode, mask, p, rsvdCnt, here);
}
template <typename T, typename U> void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<U>& pattern,
    bool reduceMode, uint32_t mask, const GatherMaskParams& p, uint64_t& rsvdCnt, STANDIN_HERE) {
    static_assert(sizeof(T) == sizeof(U) && std::is_unsigned_v<U>,
        "stand-in: GatherMask takes uint16 bits for 16-bit elements and uint32 for 32-bit ones");
    StandinGatherMask(dst, src, pattern, reduceMode, mask, p, rsvdCnt, here);
}
template <typename T, bool isSetMask = true, typename MASK>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offsets, uint32_t base, const MASK& mask,
    uint8_t repeatTime, uint16_t dstRepStride, STANDIN_HERE) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "stand-in: Gather takes elements of 16 and 32 bits");
    STANDIN_RECORD(Gather, V, "Gather");
    r.dst = dst.standin_place, r.a = src.standin_place, r.b = offsets.standin_place;
    StandinStrides(r, repeatTime, 256 / sizeof(T), UnaryRepeatParams{1, 1, dstRepStride, 0}), r.n[8] = base, StandinPutMasked<isSetMask>(r,
        mask);
}
template <typename T> void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offsets,
    uint32_t base, uint32_t count, STANDIN_HERE) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "stand-in: Gather takes elements of 16 and 32 bits");
    STANDIN_RECORD(Gather, V, "Gather");
    r.dst = dst.standin_place, r.a = src.standin_place, r.b = offsets.standin_place;
    StandinStrides(r, 1, 256 / sizeof(T), UnaryRepeatParams()), r.n[8] = base, StandinPutCount(r, count);
}
#endif
template <typename T> void StandinTurn(standin::Record& r, const TransDataTo5HDParams& p) {
    static_assert(sizeof(T) <= 2 || (sizeof(T) == 4 && !standin::A910),
        "stand-in: TransDataTo5HD does not take elements of this width on this product");
    if (sizeof(T) != 1 && (p.dstHighHalf || p.srcHighHalf)) standin::Fail(r.line, r.name,
        "dstHighHalf and srcHighHalf are for elements of 8 bits");
    if (p.repeatTimes == 1 && (p.dstRepStride || p.srcRepStride)) standin::Fail(r.line, r.name,
        "with one repeat the repeat strides must be 0");
    const int64_t fields[] = {p.repeatTimes, p.dstRepStride, p.srcRepStride, p.dstHighHalf, p.srcHighHalf, static_cast<int64_t>(sizeof(T))};
    for (int i = 0; i < 6; i++) r.n[i] = fields[i];
    standin::Put(r);
}
template <typename T> void TransDataTo5HD(uint64_t (&dst)[16], uint64_t (&src)[16], const TransDataTo5HDParams& p, STANDIN_HERE) {
    STANDIN_RECORD(Turn, V, "TransDataTo5HD");
    for (int i = 0; i < 16; i++) r.list[i] = static_cast<uint32_t>(dst[i]), r.list[16 + i] = static_cast<uint32_t>(src[i]);
    StandinTurn<T>(r, p);
}
template <typename T> void TransDataTo5HD(const LocalTensor<T> (&dst)[16], const LocalTensor<T> (&src)[16], const TransDataTo5HDParams& p,
    STANDIN_HERE) {
    STANDIN_RECORD(Turn, V, "TransDataTo5HD");
    for (int i = 0; i < 16; i++) r.list[i] = static_cast<uint32_t>(dst[i].standin_place.at),
        r.list[16 + i] = static_cast<uint32_t>(src[i].standin_place.at);
    StandinTurn<T>(r, p);
}

// ---- reductions: one result a repeat, or one a block, eight a repeat side by side
template <typename T, bool isSetMask, typename MASK>
void StandinReduce(const char* name, standin::Word word, const LocalTensor<T>& dst, const LocalTensor<T>& src, const MASK& mask,
    int32_t repeatTime, int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, ReduceOrder order, standin::Line here) {
    static_assert(STANDIN_REAL, "stand-in: reductions take half and float");
    STANDIN_RECORD(Reduce, V, name);
    if (standin::A910 && word != standin::Word::Sum && !std::is_same_v<T, half>) standin::Fail(here.number, name,
        "product 1001 takes half alone");
    const bool sum = word == standin::Word::Sum;
    if (!sum && !standin::A2 && order == ReduceOrder::ORDER_ONLY_VALUE) standin::Fail(here.number, name,
        "product %d has no ORDER_ONLY_VALUE: results are pairs", STANDIN_PRODUCT);
    if (!sum && order != ReduceOrder::ORDER_ONLY_VALUE && order != ReduceOrder::ORDER_VALUE_INDEX) standin::Fail(here.number, name,
        "the stand-in has ORDER_ONLY_VALUE and ORDER_VALUE_INDEX alone");
    if (standin::A910 && !dstRepStride) standin::Fail(here.number, name, "dstRepStride must not be 0 on product 1001");
    if (repeatTime < 0 || repeatTime > 255) standin::Fail(here.number, name, "repeatTime is %d, at most 255", repeatTime);
    r.word = word, r.dst = dst.standin_place, r.a = src.standin_place;
    const int64_t fields[] = {repeatTime, 0, srcBlkStride, 0, dstRepStride, srcRepStride, 0, !sum &&
        order == ReduceOrder::ORDER_VALUE_INDEX};
    for (int i = 0; i < 8; i++) r.n[i] = fields[i];
    r.n[21] = 256 / sizeof(T);
    StandinPutMasked<isSetMask>(r, mask);
}
template <typename T, bool isSetMask, typename MASK>
void StandinReduceBlocks(const char* name, standin::Word word, const LocalTensor<T>& dst, const LocalTensor<T>& src, const MASK& mask,
    int32_t repeatTime, int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, standin::Line here) {
    static_assert(STANDIN_REAL, "stand-in: reductions take half and float");
    STANDIN_RECORD(Reduce, V, name);
    if (standin::A910 && !std::is_same_v<T, half>) standin::Fail(here.number, name, "product 1001 takes half alone");
    if (repeatTime < 0 || repeatTime > 255) standin::Fail(here.number, name, "repeatTime is %d, at most 255", repeatTime);
    r.word = word, r.dst = dst.standin_place, r.a = src.standin_place;
    const int64_t fields[] = {repeatTime, 0, srcBlkStride, 0, dstRepStride, srcRepStride, 0, 0, 1};
    for (int i = 0; i < 9; i++) r.n[i] = fields[i];
    r.n[21] = 256 / sizeof(T);
    StandinPutMasked<isSetMask>(r, mask);
}
#if STANDIN_RELEASE >= 91
template <ReduceType kind, typename T, typename U = T, bool isSetMask = true, typename MASK>
void ReduceRepeat(const LocalTensor<T>& dst, const LocalTensor<U>& src, const MASK& mask, int32_t repeatTime, int32_t dstRepStride,
    int32_t srcBlkStride, int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, STANDIN_HERE) {
    constexpr standin::Word word = kind == ReduceType::SUM ? standin::Word::Sum : kind == ReduceType::MAX ? standin::Word::Greatest
        : standin::Word::Least;
    StandinReduce<T, isSetMask>("ReduceRepeat", word, dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, order, here);
}
template <ReduceType kind, typename T, typename U = T, bool isSetMask = true, typename MASK>
void ReduceDataBlock(const LocalTensor<T>& dst, const LocalTensor<U>& src, const MASK& mask, int32_t repeatTime, int32_t dstRepStride,
    int32_t srcBlkStride, int32_t srcRepStride, STANDIN_HERE) {
    constexpr standin::Word word = kind == ReduceType::SUM ? standin::Word::Sum :
        kind == ReduceType::MAX ? standin::Word::Greatest : standin::Word::Least;
    StandinReduceBlocks<T, isSetMask>("ReduceDataBlock", word, dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, here);
}
#else
#define STANDIN_BLOCK_REDUCE(NAME, WORD)                                                                                      \
    template <typename T, bool isSetMask = true, typename MASK>                                                               \
    void NAME(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t repeatTime, const MASK& mask,                     \
        int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, STANDIN_HERE) {                                     \
        StandinReduceBlocks<T, isSetMask>(#NAME, standin::Word::WORD, dst, src, mask, repeatTime, dstRepStride, srcBlkStride, \
            srcRepStride, here);                                                                                              \
    }
STANDIN_BLOCK_REDUCE(BlockReduceSum, Sum)
STANDIN_BLOCK_REDUCE(BlockReduceMax, Greatest)
STANDIN_BLOCK_REDUCE(BlockReduceMin, Least)
template <typename T, bool isSetMask = true, typename MASK>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const MASK& mask, int32_t repeatTime, int32_t dstRepStride,
    int32_t srcBlkStride, int32_t srcRepStride, STANDIN_HERE) {
    StandinReduce<T, isSetMask>("WholeReduceSum", standin::Word::Sum, dst, src, mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride,
        ReduceOrder::ORDER_ONLY_VALUE, here);
}
template <typename T, bool isSetMask = true, typename MASK>
void WholeReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const MASK& mask, int32_t repeatTime, int32_t dstRepStride,
    int32_t srcBlkStride, int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, STANDIN_HERE) {
    StandinReduce<T, isSetMask>("WholeReduceMax", standin::Word::Greatest, dst, src, mask, repeatTime, dstRepStride, srcBlkStride,
        srcRepStride, order, here);
}
template <typename T, bool isSetMask = true, typename MASK>
void WholeReduceMin(const LocalTensor<T>& dst, const LocalTensor<T>& src, const MASK& mask, int32_t repeatTime, int32_t dstRepStride,
    int32_t srcBlkStride, int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, STANDIN_HERE) {
    StandinReduce<T, isSetMask>("WholeReduceMin", standin::Word::Least, dst, src, mask, repeatTime, dstRepStride, srcBlkStride,
        srcRepStride, order, here);
}
template <typename T, bool isSetMask = true>
void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t repeatTime, int32_t elements, int32_t,
    int32_t srcBlkStride, int32_t dstRepStride, int32_t srcRepStride, STANDIN_HERE) {
    StandinReduce<T, isSetMask>("RepeatReduceSum", standin::Word::Sum, dst, src, static_cast<uint64_t>(elements), repeatTime, dstRepStride,
        srcBlkStride, srcRepStride, ReduceOrder::ORDER_ONLY_VALUE, here);
}
#endif

}  // namespace AscendC
