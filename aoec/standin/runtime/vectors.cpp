// Vector instructions by their meaning: repeat after repeat, reals in fp32 and rounded once, as our instruction set has them.
#include <algorithm>
#include <cmath>

#include "machine.hpp"

namespace standin {

constexpr int MOST = 128;  // lanes of a repeat

struct Lanes {
    int n = 0;
    bool close = true;      // the first n
    uint8_t at[MOST] = {};  // which, where they are not
};
static Lanes LanesOf(const Record& r, int64_t repeat) {
    Lanes out;
    const int64_t most = r.n[21];
    if (r.count >= 0) {
        out.n = static_cast<int>(std::min(most, r.count - repeat * most));
        return out;
    }
    const uint64_t low = r.mask[0], high = r.mask[1];
    const int lows = low == ~0ull ? 64 : low & (low + 1) ? -1 : __builtin_popcountll(low), highs = high == ~0ull ? 64 : high & (high + 1)
        ? -1 : __builtin_popcountll(high);
    if (lows >= 0 && highs >= 0 && (highs == 0 || lows == 64)) {
        out.n = lows + highs;
        return out;
    }
    out.close = false;
    for (int e = 0; e < most; e++)
        if ((e < 64 ? low >> e : high >> (e - 64)) & 1) out.at[out.n++] = static_cast<uint8_t>(e);
    return out;
}

// An operand of a vector instruction, with its steps in bytes.
struct Side {
    const Place& place;
    int64_t blk, rep;
    int size, per;  // bytes of an element, elements of a block
    Side(const Place& p, int64_t blk_stride, int64_t rep_stride) : place(p), blk(blk_stride * 32), rep(rep_stride * 32),
        size(SizeOf(p.type)), per(32 / size) {}
};

// The bytes of the lanes of one repeat, side by side.
static void Read(Core& core, const Record& r, const Side& s, int64_t repeat, const Lanes& l, uint8_t* out, bool loose = false) {
    const uint64_t base = s.place.at + repeat * s.rep;
    if (!l.close) {
        for (int i = 0; i < l.n; i++) std::memcpy(out + i * s.size, Reach(core, r, s.place,
            base + l.at[i] / s.per * s.blk + l.at[i] % s.per * s.size, s.size, false, loose), s.size);
    } else if (s.blk == 32) {
        if (l.n) std::memcpy(out, Reach(core, r, s.place, base, l.n * s.size, false, loose), l.n * s.size);
    } else {
        for (int i = 0; i < l.n; i += s.per) {
            const int n = std::min(s.per, l.n - i) * s.size;
            std::memcpy(out + i * s.size, Reach(core, r, s.place, base + i / s.per * s.blk, n, false, loose), n);
        }
    }
}
static void Write(Core& core, const Record& r, const Side& s, int64_t repeat, const Lanes& l, const uint8_t* x) {
    const uint64_t base = s.place.at + repeat * s.rep;
    if (!l.close) {
        for (int i = 0; i < l.n; i++) std::memcpy(Reach(core, r, s.place, base + l.at[i] / s.per * s.blk + l.at[i] % s.per * s.size,
            s.size, true), x + i * s.size, s.size);
    } else if (s.blk == 32) {
        if (l.n) std::memcpy(Reach(core, r, s.place, base, l.n * s.size, true), x, l.n * s.size);
    } else {
        if (!s.blk && l.n > s.per) Stop(r, "what dstBlkStride 0 means is not defined");
        for (int i = 0; i < l.n; i += s.per) {
            const int n = std::min(s.per, l.n - i) * s.size;
            std::memcpy(Reach(core, r, s.place, base + i / s.per * s.blk, n, true), x + i * s.size, n);
        }
    }
}

// ---------------------------------------------------------------- reals

static float Larger(float a, float b) { return a > b || a != a ? a : b; }
static float Smaller(float a, float b) { return a < b || a != a ? a : b; }

static void Reals(Word word, float* x, const float* y, int n) {
    switch (word) {
        case Word::Add: case Word::Adds: for (int i = 0; i < n; i++) x[i] = x[i] + y[i]; break;
        case Word::Sub: for (int i = 0; i < n; i++) x[i] = x[i] - y[i]; break;
        case Word::Mul: case Word::Muls: for (int i = 0; i < n; i++) x[i] = x[i] * y[i]; break;
        case Word::Div: for (int i = 0; i < n; i++) x[i] = x[i] / y[i]; break;
        case Word::Max: case Word::Maxs: for (int i = 0; i < n; i++) x[i] = Larger(x[i], y[i]); break;
        case Word::Min: case Word::Mins: for (int i = 0; i < n; i++) x[i] = Smaller(x[i], y[i]); break;
        case Word::AddRelu: for (int i = 0; i < n; i++) x[i] = Larger(x[i] + y[i], 0.0f); break;
        case Word::Exp: for (int i = 0; i < n; i++) x[i] = static_cast<float>(std::exp(static_cast<double>(x[i]))); break;
        case Word::Ln: for (int i = 0; i < n; i++) x[i] = static_cast<float>(std::log(static_cast<double>(x[i]))); break;
        case Word::Sqrt: for (int i = 0; i < n; i++) x[i] = std::sqrt(x[i]); break;
        case Word::Rsqrt: for (int i = 0; i < n; i++) x[i] = 1.0f / std::sqrt(x[i]); break;
        case Word::Reciprocal: for (int i = 0; i < n; i++) x[i] = 1.0f / x[i]; break;
        case Word::Abs: for (int i = 0; i < n; i++) x[i] = std::fabs(x[i]); break;
        case Word::Relu: for (int i = 0; i < n; i++) x[i] = Larger(x[i], 0.0f); break;
        default: break;
    }
}

// ---------------------------------------------------------------- whole numbers

template <typename T> static T Whole(Word word, T a, T b) {
    using U = std::make_unsigned_t<T>;
    const U x = static_cast<U>(a), y = static_cast<U>(b);
    constexpr int bits = 8 * sizeof(T);
    switch (word) {
        case Word::Add: case Word::Adds: return static_cast<T>(x + y);
        case Word::Sub: return static_cast<T>(x - y);
        case Word::Mul: case Word::Muls: return static_cast<T>(static_cast<uint64_t>(x) * y);
        case Word::Max: case Word::Maxs: return a > b ? a : b;
        case Word::Min: case Word::Mins: return a < b ? a : b;
        case Word::AddRelu: return std::max<T>(static_cast<T>(x + y), 0);
        case Word::And: return static_cast<T>(x & y);
        case Word::Or: return static_cast<T>(x | y);
        case Word::Not: return static_cast<T>(~x);
        case Word::Relu: return std::max<T>(a, 0);
        case Word::ShiftLeft: {  // of signed numbers the sign stays
            const U moved = y >= bits ? U(0) : static_cast<U>(static_cast<uint64_t>(x) << y);
            const U sign = static_cast<U>(U(1) << (bits - 1));
            return static_cast<T>(std::is_signed_v<T> ? static_cast<U>((moved & static_cast<U>(~sign)) | (x & sign)) : moved);
        }
        case Word::ShiftRight: return y >= bits ? static_cast<T>(std::is_signed_v<T> && a < 0 ? -1 : 0) : static_cast<T>(a >> y);
        default: return a;
    }
}
template <typename T> static void Wholes(Word word, uint8_t* x, const uint8_t* y, int n) {
    for (int i = 0; i < n; i++) {
        T a, b = 0;
        std::memcpy(&a, x + i * sizeof(T), sizeof(T));
        if (y) std::memcpy(&b, y + i * sizeof(T), sizeof(T));
        a = Whole<T>(word, a, b);
        std::memcpy(x + i * sizeof(T), &a, sizeof(T));
    }
}
static void AnyWholes(const Record& r, Type t, Word word, uint8_t* x, const uint8_t* y, int n) {
    switch (t) {
        case I8: return Wholes<int8_t>(word, x, y, n);
        case U8: return Wholes<uint8_t>(word, x, y, n);
        case I16: return Wholes<int16_t>(word, x, y, n);
        case U16: return Wholes<uint16_t>(word, x, y, n);
        case I32: return Wholes<int32_t>(word, x, y, n);
        case U32: return Wholes<uint32_t>(word, x, y, n);
        default: Stop(r, "the stand-in does not compute in %s", TypeName(t));
    }
}

static void Fill(uint8_t* to, int size, uint64_t bits, int n) {
    for (int i = 0; i < n; i++) std::memcpy(to + i * size, &bits, size);
}

static void Elementwise(Core& core, const Record& r) {
    const Side dst(r.dst, r.n[1], r.n[4]), a(r.a, r.n[2], r.n[5]), b(r.b, r.n[3], r.n[6]);
    const bool two = r.op == Op::Binary || r.op == Op::AddReluCast;
    const Word word = r.op == Op::AddReluCast ? Word::AddRelu : r.word;
    CheckAlign(r, r.dst, 32, "the target"), CheckAlign(r, r.a, 32, "a source");
    if (two) CheckAlign(r, r.b, 32, "a source");
    uint8_t x[1024], y[1024];
    float fx[MOST], fy[MOST];
    const bool real = IsReal(r.a.type);
    if (r.op == Op::Scalar) Fill(y, a.size, r.bits, MOST);
    if (r.op == Op::Scalar && real) LoadReals(y, r.a.type, MOST, fy);
    for (int64_t i = 0; i < r.n[0]; i++) {
        const Lanes l = LanesOf(r, i);
        Read(core, r, a, i, l, x);
        if (two) Read(core, r, b, i, l, y);
        if (real) {
            LoadReals(x, r.a.type, l.n, fx);
            if (two) LoadReals(y, r.b.type, l.n, fy);
            Reals(word, fx, fy, l.n);
            StoreReals(x, r.dst.type, l.n, fx);
        } else {
            AnyWholes(r, r.a.type, word, x, two || r.op == Op::Scalar ? y : nullptr, l.n);
        }
        Write(core, r, dst, i, l, x);
    }
}

// ---------------------------------------------------------------- casts

enum Mode { NONE, RINT, FLOOR, CEIL, ROUND, TRUNC, ODD };

static double ToWhole(double x, int mode) {
    switch (mode) {
        case FLOOR: return std::floor(x);
        case CEIL: return std::ceil(x);
        case ROUND: return std::round(x);
        case TRUNC: return std::trunc(x);
        default: return std::nearbyint(x);
    }
}

// x in 16 bits by a mode; `near` rounds to the nearest even, `back` gives the value.
template <typename Near, typename Back> static uint16_t ToNarrow(float x, int mode, Near near, Back back) {
    const uint16_t h = near(x);
    if (mode == NONE || mode == RINT || x != x || std::isinf(x) || back(h) == x) return h;
    const bool negative = std::signbit(x);
    const float size = std::fabs(x);
    // of the two neighbours the one nearer to 0 and the other: their bits follow each other
    uint16_t low = h & 0x7FFF;
    if (std::fabs(back(h)) > size) low--;
    const uint16_t high = static_cast<uint16_t>(low + 1);
    uint16_t out = low;
    if (mode == FLOOR) out = negative ? high : low;
    if (mode == CEIL) out = negative ? low : high;
    if (mode == ODD) out = low & 1 ? low : high;
    if (mode == ROUND) {
        const double down = size - static_cast<double>(back(low)), up = std::isinf(back(high)) ? 1e300
            : static_cast<double>(back(high)) - size;
        out = std::isinf(back(high)) ? static_cast<uint16_t>(h & 0x7FFF) : up <= down ? high : low;
    }
    return static_cast<uint16_t>(out | (negative ? 0x8000 : 0));
}

static float WholeToFloat(int64_t v, int mode) {
    const float near = static_cast<float>(v);
    const long double exact = static_cast<long double>(v), found = static_cast<long double>(near);
    if (mode == NONE || mode == RINT || exact == found) return near;
    const float low = found > exact ? std::nextafter(near, -INFINITY) : near, high = found > exact ? near : std::nextafter(near, INFINITY);
    if (mode == FLOOR) return low;
    if (mode == CEIL) return high;
    if (mode == TRUNC) return v < 0 ? high : low;
    const long double down = exact - static_cast<long double>(low), up = static_cast<long double>(high) - exact;
    return down == up ? (v < 0 ? low : high) : down < up ? low : high;
}

static void Limits(Type t, double& low, double& high) {
    const int bits = 8 * SizeOf(t);
    const bool sign = t == I8 || t == I16 || t == I32 || t == I64;
    low = sign ? -std::ldexp(1.0, bits - 1) : 0.0, high = std::ldexp(1.0, sign ? bits - 1 : bits) - (bits < 64 ? 1.0 : 0.0);
}
static int64_t Saturate(double x, Type t) {
    if (x != x) return 0;
    double low, high;
    Limits(t, low, high);
    if (t == I64) return x >= high ? INT64_MAX : x < low ? INT64_MIN : static_cast<int64_t>(x);
    return static_cast<int64_t>(std::min(std::max(x, low), high));
}
static int64_t LoadWhole(const uint8_t* from, Type t) {
    int64_t v = 0;
    switch (t) {
        case I8: return static_cast<int8_t>(*from);
        case U8: return *from;
        case I16: { int16_t x; std::memcpy(&x, from, 2); return x; }
        case U16: { uint16_t x; std::memcpy(&x, from, 2); return x; }
        case I32: { int32_t x; std::memcpy(&x, from, 4); return x; }
        case U32: { uint32_t x; std::memcpy(&x, from, 4); return x; }
        default: std::memcpy(&v, from, 8); return v;
    }
}

static void CastRun(const Record& r, const uint8_t* from, uint8_t* to, int n) {
    const Type s = r.a.type, d = r.dst.type;
    const int mode = static_cast<int>(r.n[7]), size = SizeOf(d);
    float x[MOST];
    if (IsReal(s)) {
        LoadReals(from, s, n, x);
        if (d == F32) {
            if (s == F32) for (int i = 0; i < n; i++) x[i] = static_cast<float>(ToWhole(x[i], mode));
            return StoreReals(to, F32, n, x);
        }
        if (IsReal(d) && mode <= RINT) return StoreReals(to, d, n, x);
        for (int i = 0; i < n; i++) {
            if (IsReal(d)) {
                const uint16_t h = d == F16 ? ToNarrow(x[i], mode, FloatToHalf, HalfToFloat) : ToNarrow(x[i], mode, FloatToBfloat,
                    BfloatToFloat);
                std::memcpy(to + 2 * i, &h, 2);
                continue;
            }
            const int64_t v = Saturate(ToWhole(x[i], mode), d);
            std::memcpy(to + i * size, &v, size);
        }
        return;
    }
    if (!IsReal(d)) {
        for (int i = 0; i < n; i++) {
            int64_t v = LoadWhole(from + i * SizeOf(s), s);
            double low, high;
            Limits(d, low, high);
            if (d != I64) v = std::min(std::max(v, static_cast<int64_t>(low)), static_cast<int64_t>(high));
            std::memcpy(to + i * size, &v, size);
        }
        return;
    }
    const bool scaled = s == I32 && d == F16;
    for (int i = 0; i < n; i++) {
        const int64_t v = LoadWhole(from + i * SizeOf(s), s);
        if (scaled) x[i] = static_cast<float>(v) * HalfToFloat(static_cast<uint16_t>(r.bits));
        else x[i] = WholeToFloat(v, d == F32 ? mode : NONE);
        if (!scaled && d != F32 && mode > RINT) {
            const uint16_t h = ToNarrow(x[i], mode, FloatToHalf, HalfToFloat);
            x[i] = HalfToFloat(h);
        }
    }
    StoreReals(to, d, n, x);
}

static void Cast(Core& core, const Record& r) {
    const Side dst(r.dst, r.n[1], r.n[4]), a(r.a, r.n[2], r.n[5]);
    CheckAlign(r, r.dst, 32, "the target"), CheckAlign(r, r.a, 32, "the source");
    if (r.a.type == I32 && r.dst.type == F16 && !r.bits) Stop(r, "int32_t to half needs SetDeqScale before");
    uint8_t x[1024], y[1024];
    for (int64_t i = 0; i < r.n[0]; i++) {
        const Lanes l = LanesOf(r, i);
        Read(core, r, a, i, l, x);
        CastRun(r, x, y, l.n);
        Write(core, r, dst, i, l, y);
    }
}

// ---------------------------------------------------------------- comparisons, selections

template <typename T> static bool Holds(int mode, T a, T b) {
    switch (mode) {
        case 0: return a < b;
        case 1: return a > b;
        case 2: return a == b;
        case 3: return a <= b;
        case 4: return a >= b;
        default: return a != b;
    }
}

// Whole repeats, whatever the mask says: sources may be read beyond their tensors, as far as UB goes.
static void Compare(Core& core, const Record& r) {
    const Side a(r.a, r.n[2], r.n[5]), b(r.b, r.n[3], r.n[6]);
    const int lanes = static_cast<int>(r.n[21]), mode = static_cast<int>(r.n[7]);
    CheckAlign(r, r.dst, 32, "the target"), CheckAlign(r, r.a, 32, "a source");
    const bool two = r.op == Op::Compare;
    if (two) CheckAlign(r, r.b, 32, "a source");
    uint8_t x[512], y[512], bits[16];
    float fx[MOST], fy[MOST];
    Lanes l;
    l.n = lanes;
    if (!two) Fill(y, a.size, r.bits, lanes);
    for (int64_t i = 0; i < r.n[0]; i++) {
        Read(core, r, a, i, l, x, true);
        if (two) Read(core, r, b, i, l, y, true);
        std::memset(bits, 0, sizeof bits);
        if (IsReal(r.a.type)) LoadReals(x, r.a.type, lanes, fx), LoadReals(y, r.a.type, lanes, fy);
        for (int e = 0; e < lanes; e++) {
            const bool yes = IsReal(r.a.type) ? Holds(mode, fx[e], fy[e]) : Holds(mode, LoadWhole(x + e * a.size, r.a.type),
                LoadWhole(y + e * a.size, r.a.type));
            bits[e / 8] |= static_cast<uint8_t>(yes << (e % 8));
        }
        std::memcpy(Reach(core, r, r.dst, r.dst.at + i * (lanes / 8), lanes / 8, true), bits, lanes / 8);
    }
}

static void Select(Core& core, const Record& r) {
    const Side dst(r.dst, r.n[1], r.n[4]), a(r.a, r.n[2], r.n[5]), b(r.b, r.n[3], r.n[6]);
    const int mode = static_cast<int>(r.n[7]);
    const int64_t lanes = r.n[21];
    const bool two = r.b.mem != NOWHERE;
    for (const Place* p : {&r.dst, &r.a, &r.c}) CheckAlign(r, *p, 32, "an operand");
    if (two) CheckAlign(r, r.b, 32, "an operand");
    if (!A910 && mode) ReserveTop(core, r);
    uint8_t x[512], y[512];
    if (!two) Fill(y, a.size, r.bits, MOST);
    for (int64_t i = 0; i < r.n[0]; i++) {
        const Lanes l = LanesOf(r, i);
        if (!l.n) continue;
        const uint8_t* bits = Reach(core, r, r.c, r.c.at + (mode ? i * (lanes / 8) : 0), lanes / 8, false, true);
        Read(core, r, a, i, l, x);
        if (two) Read(core, r, b, i, l, y);
        for (int e = 0; e < l.n; e++) {
            const int lane = l.close ? e : l.at[e];
            if (!(bits[lane / 8] >> (lane % 8) & 1)) std::memcpy(x + e * a.size, y + e * a.size, a.size);
        }
        Write(core, r, dst, i, l, x);
    }
}

// ---------------------------------------------------------------- fills, rearrangement, reductions

static void Move(Core& core, const Record& r) {
    const Side dst(r.dst, r.n[1], r.n[4]), a(r.a, r.n[2], r.n[5]);
    CheckAlign(r, r.dst, 32, "the target");
    const bool copy = r.op == Op::Copy;
    if (copy) CheckAlign(r, r.a, 32, "the source");
    uint8_t x[512];
    if (!copy) Fill(x, dst.size, r.bits, MOST);
    for (int64_t i = 0; i < r.n[0]; i++) {
        const Lanes l = LanesOf(r, i);
        if (copy) Read(core, r, a, i, l, x);
        Write(core, r, dst, i, l, x);
    }
}

static void Brcb(Core& core, const Record& r) {
    const int size = SizeOf(r.dst.type);
    CheckAlign(r, r.dst, 32, "the target"), CheckAlign(r, r.a, 32, "the source");
    if (P310) ReserveTop(core, r);
    for (int64_t i = 0; i < r.n[0]; i++) {
        uint8_t x[32];
        std::memcpy(x, Reach(core, r, r.a, r.a.at + i * 8 * size, 8 * size, false), 8 * size);
        for (int b = 0; b < 8; b++) {
            uint8_t* to = Reach(core, r, r.dst, r.dst.at + (i * r.n[2] + b * r.n[1]) * 32, 32, true);
            for (int e = 0; e < 32 / size; e++) std::memcpy(to + e * size, x + b * size, size);
        }
    }
}

static void Turn(Core& core, const Record& r) {
    const int64_t repeat = r.n[0], dst_rep = r.n[1] * 32, src_rep = r.n[2] * 32, dst_high = r.n[3], src_high = r.n[4];
    const int size = static_cast<int>(r.n[5]), wide = size == 1 ? 16 : 32 / size;
    const Place ub{UB, U8, 0, 0, 0};
    for (int i = 0; i < 32; i++)
        if (r.list[i] % 32) Stop(r, "address %d of the %s is %u, no multiple of 32", i % 16, i < 16 ? "targets" : "sources", r.list[i]);
    for (int64_t q = 0; q < repeat; q++) {
        uint8_t x[16][32];
        for (int row = 0; row < 16; row++)
            std::memcpy(x[row], Reach(core, r, ub, r.list[16 + row] + q * src_rep + (src_high ? 16 : 0), wide * size, false), wide * size);
        for (int j = 0; j < 16; j++) {  // of 32 bits rows lie in pairs: lanes 0 to 7, then 8 to 15
            const int column = size == 4 ? j / 2 : j, first = size == 4 ? j % 2 * 8 : 0, count = size == 4 ? 8 : 16;
            uint8_t* to = Reach(core, r, ub, r.list[j] + q * dst_rep + (dst_high ? 16 : 0), count * size, true);
            for (int row = 0; row < count; row++) std::memcpy(to + row * size, x[first + row] + column * size, size);
        }
    }
}

static void GatherMask(Core& core, const Record& r) {
    const int64_t kind = r.n[0], repeats = r.n[2], blk = r.n[3], rep = r.n[4], pattern_rep = r.n[5];
    const int size = SizeOf(r.dst.type), per = 32 / size;
    const int64_t lanes = 256 / size, total = r.n[6] ? r.n[1] : -1;
    CheckAlign(r, r.dst, 32, "the target"), CheckAlign(r, r.a, 32, "the source");
    std::vector<uint8_t> row;
    uint64_t to = r.dst.at;
    for (int64_t i = 0; i < repeats; i++) {
        const int64_t each = total < 0 ? r.n[1] : std::min(lanes, total - i * lanes);
        const uint8_t* bits = kind ? nullptr : Reach(core, r, r.b, r.b.at + i * pattern_rep * 32, (each + 7) / 8, false);
        row.clear();
        for (int64_t e = 0; e < each; e += per) {
            const int64_t n = std::min<int64_t>(per, each - e);
            const uint8_t* src = Reach(core, r, r.a, r.a.at + (i * rep + e / per * blk) * 32, n * size, false);
            for (int64_t q = 0; q < n; q++) {
                const int64_t at = e + q;
                const bool kept = kind == 0 ? bits[at / 8] >> (at % 8) & 1 : kind == 7 || (kind < 3 ? at % 2 == kind - 1
                    : at % 4 == kind - 3);
                if (kept) row.insert(row.end(), src + q * size, src + (q + 1) * size);
            }
        }
        if (row.empty()) continue;
        std::memcpy(Reach(core, r, r.dst, to, row.size(), true), row.data(), row.size());
        to += row.size();
    }
}

static void Gather(Core& core, const Record& r) {
    const int size = SizeOf(r.dst.type);
    const Side dst(r.dst, 1, r.n[4]);
    const int64_t lanes = r.n[21];
    CheckAlign(r, r.dst, 32, "the target"), CheckAlign(r, r.b, 32, "the offsets");
    uint8_t x[512];
    for (int64_t i = 0; i < r.n[0]; i++) {
        const Lanes l = LanesOf(r, i);
        for (int e = 0; e < l.n; e++) {
            uint32_t offset;
            std::memcpy(&offset, Reach(core, r, r.b, r.b.at + (i * lanes + (l.close ? e : l.at[e])) * 4, 4, false), 4);
            if (offset % size) Stop(r, "an offset is %u bytes, no multiple of the element's %d", offset, size);
            std::memcpy(x + e * size, Reach(core, r, r.a, r.a.at + r.n[8] + offset, size, false), size);
        }
        Write(core, r, dst, i, l, x);
    }
}

static float Next(Word word, float a, float b) { return word == Word::Sum ? a + b : word == Word::Greatest ? Larger(a, b) : Smaller(a, b); }

// A result for each block of which a lane takes part; from repeat to repeat of the target so many times eight elements.
static void ReduceBlocks(Core& core, const Record& r, const Side& a) {
    const int size = a.size;
    uint8_t x[512], out[8];
    float v[MOST];
    for (int64_t i = 0; i < r.n[0]; i++) {
        const Lanes l = LanesOf(r, i);
        Read(core, r, a, i, l, x);
        LoadReals(x, r.a.type, l.n, v);
        for (int e = 0; e < l.n;) {
            const int block = (l.close ? e : l.at[e]) / a.per;
            float best = v[e++];
            for (; e < l.n && (l.close ? e : l.at[e]) / a.per == block; e++) best = Next(r.word, best, v[e]);
            StoreReals(out, r.dst.type, 1, &best);
            std::memcpy(Reach(core, r, r.dst, r.dst.at + (i * r.n[4] * 8 + block) * size, size, true), out, size);
        }
    }
}

// One result a repeat, in fp32 from the first lane to the last, as our instruction set sums; the part itself sums as a tree.
static void Reduce(Core& core, const Record& r) {
    const Side a(r.a, r.n[2], r.n[5]);
    const int size = SizeOf(r.dst.type);
    const bool pairs = r.n[7];
    CheckAlign(r, r.a, 32, "the source"), CheckAlign(r, r.dst, pairs ? 2 * size : size, "the target");
    if (r.n[8]) return ReduceBlocks(core, r, a);
    uint8_t x[512], out[8];
    float v[MOST];
    for (int64_t i = 0; i < r.n[0]; i++) {
        const Lanes l = LanesOf(r, i);
        if (!l.n) continue;
        Read(core, r, a, i, l, x);
        LoadReals(x, r.a.type, l.n, v);
        float best = v[0];
        uint32_t where = l.close ? 0 : l.at[0];
        for (int e = 1; e < l.n; e++) {
            const float next = Next(r.word, best, v[e]);
            if (r.word != Word::Sum && next != best && best == best) where = l.close ? e : l.at[e];
            best = next;
        }
        StoreReals(out, r.dst.type, 1, &best);
        if (pairs) std::memcpy(out + size, &where, size);
        const int bytes = pairs ? 2 * size : size;
        std::memcpy(Reach(core, r, r.dst, r.dst.at + i * r.n[4] * bytes, bytes, true), out, bytes);
    }
}

static void CheckUb(const Record& r) {
    for (const Place* p : {&r.dst, &r.a, &r.b, &r.c})
        if (p->mem != NOWHERE && p->mem != UB) Stop(r, "an operand lies in %s, and vector instructions work on UB", MemName(p->mem));
}

void ExecuteVector(Core& core, const Record& r) {
    CheckUb(r);
    switch (r.op) {
        case Op::Binary: case Op::Unary: case Op::Scalar: case Op::AddReluCast: return Elementwise(core, r);
        case Op::Cast: return Cast(core, r);
        case Op::Compare: case Op::CompareScalar: return Compare(core, r);
        case Op::Select: return Select(core, r);
        case Op::Duplicate: case Op::Copy: return Move(core, r);
        case Op::Brcb: return Brcb(core, r);
        case Op::Turn: return Turn(core, r);
        case Op::GatherMask: return GatherMask(core, r);
        case Op::Gather: return Gather(core, r);
        default: return Reduce(core, r);
    }
}

}  // namespace standin
