// Every access to a memory: bounds, capacity, alignment, and whether flags and barriers order it behind those that it meets.
#include <cstdarg>
#include <cstdio>
#ifdef __F16C__
#include <immintrin.h>
#endif

#include "machine.hpp"

namespace standin {

const char* MemName(Mem m) {
    constexpr const char* names[] = {"GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB", "no memory"};
    return names[m];
}
const char* PipeName(int p) {
    constexpr const char* names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"};
    return names[p];
}
const char* TypeName(Type t) {
    constexpr const char* names[] = {"float", "half", "bfloat16_t", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t",
        "int64_t", "uint64_t"};
    return names[t];
}

static std::string CoreName() {
    if (!now || !now->core) return "launch";
    const Core& core = *now->core;
    std::string out = "block " + std::to_string(core.block);
    if (now->kind >= Kind::MixAiv10 && now->kind <= Kind::MixAic12) out += core.kind == CoreKind::Cube ? ", cube core"
        : ", vector core " + std::to_string(core.sub);
    return out;
}
std::string Where(const Record& r) {
    return CoreName() + ": " + r.name + (r.line ? " at line " + std::to_string(r.line) : "") + (r.pipe < PIPES
        ? std::string(" (") + PipeName(r.pipe) + ")" : "");
}
static std::string Format(const char* text, va_list values) {
    char buffer[1024];
    std::vsnprintf(buffer, sizeof buffer, text, values);
    return buffer;
}
void Stop(const Record& r, const char* text, ...) {
    va_list values;
    va_start(values, text);
    std::string said = Format(text, values);
    va_end(values);
    throw Fault{Where(r) + ": " + said};
}
void Fail(int line, const char* name, const char* text, ...) {
    va_list values;
    va_start(values, text);
    std::string said = Format(text, values);
    va_end(values);
    throw Fault{CoreName() + ": " + name + (line ? " at line " + std::to_string(line) : "") + ": " + said};
}

void CheckAlign(const Record& r, const Place& place, uint32_t unit, const char* what) {
    if (place.at % unit) Stop(r, "%s begins at byte %llu of %s, which is no multiple of %u", what,
        static_cast<unsigned long long>(place.mem == GM ? place.at - place.low : place.at), MemName(place.mem), unit);
}

static int LineOf(const Core& core, int pipe, uint32_t number) {
    const auto& lines = core.lines[pipe];
    return number && number <= lines.size() ? lines[number - 1] : 0;
}
[[noreturn]] static void Race(const Core& core, const Record& r, const Place& place, uint64_t at, int other, uint32_t number, bool writes,
    bool wrote) {
    const char* barrier = other == r.pipe ? "without PipeBarrier" : "and no flag orders them";
    Stop(r, "%s byte %llu of %s, which %s at line %d %s, %s", writes ? "writes" : "reads", static_cast<unsigned long long>(at),
        MemName(place.mem), PipeName(other),
         LineOf(core, other, number), wrote ? "writes" : "reads", barrier);
}

static void Order(Core& core, const Record& r, const Place& place, uint64_t at, uint64_t bytes, bool writes) {
    Memory& m = core.mem[place.mem];
    const int pipe = r.pipe;
    const Clock& known = core.clock[pipe];
    const uint32_t self = core.issued[pipe], mine = static_cast<uint32_t>(pipe) << 29 | self;
    const uint64_t first = at / m.unit, last = (at + bytes - 1) / m.unit;
    const bool in_order = pipe == S || pipe == MTE1 || (pipe == M && r.n[22]);  // r.n[22]: large enough an Mmad to follow another
    uint32_t before = 0;
    uint32_t* writer = m.writer.data();
    for (uint64_t g = first; g <= last; g++) {
        const uint32_t w = writer[g];
        if (w == before || w == mine) continue;
        const int other = static_cast<int>(w >> 29);
        const uint32_t number = w & 0x1FFFFFFF;
        if (number > known[other] && !(other == pipe && in_order)) Race(core, r, place, g * m.unit, other, number, writes, true);
        before = w;
    }
    if (!writes) {
        auto& reads = m.readers[pipe];
        if (reads.empty()) reads.resize(m.writer.size());
        for (uint64_t g = first; g <= last; g++) reads[g] = self;
        return;
    }
    for (int other = 0; other < PIPES; other++) {
        const auto& reads = m.readers[other];
        if (other == pipe || reads.empty()) continue;
        for (uint64_t g = first; g <= last; g++)
            if (reads[g] > known[other]) Race(core, r, place, g * m.unit, other, reads[g], true, false);
    }
    for (uint64_t g = first; g <= last; g++) writer[g] = mine;
}

// The region that holds all of the bytes, or -1; `any`: whether one holds the base.
static int RegionOf(uint64_t base, uint64_t at, uint64_t bytes, bool& any) {
    for (size_t i = 0; i < now->regions.size(); i++) {
        const Region& g = now->regions[i];
        if (base < g.at || base > g.at + g.bytes) continue;
        any = true;
        if (at >= g.at && at + bytes <= g.at + g.bytes) return static_cast<int>(i);
    }
    return -1;
}

// What GM holds is read behind its write: by flags of the core, and from other blocks not at all where no flag goes between cores.
// Looked at are whole blocks of 32 bytes, so that what only lies beside is none.
static void OrderGm(const Core& core, const Record& r, const Place& place, int region, uint64_t at, uint64_t bytes, bool writes) {
    auto& tags = now->writers[region];
    if (tags.empty() && !writes) return;
    const Region& g = now->regions[region];
    if (tags.empty()) tags.resize(g.bytes / 32);
    const uint64_t first = (at - g.at + 31) / 32, last = (at + bytes - g.at) / 32,
        mine = uint64_t{core.number} << 32 | uint32_t(r.pipe) << 29 | core.issued[r.pipe];
    const bool meet = now->kind >= Kind::MixAiv10 && now->kind <= Kind::MixAic12;
    uint64_t before = mine;
    for (uint64_t i = first; i < last; i++) {
        const uint64_t tag = tags[i];
        if (writes) tags[i] = mine;
        if (!tag || tag == before) continue;
        before = tag;
        const int other = static_cast<int>(tag >> 29 & 7);
        const uint32_t number = tag & 0x1FFFFFFF;
        const auto byte = static_cast<long long>(g.at + i * 32 - place.low);
        if (tag >> 32 != core.number) {
            if (!meet && !writes) Stop(r, "reads byte %lld of a GM buffer, which another block of this launch writes: nothing orders them",
                byte);
            continue;
        }
        if (number <= core.clock[r.pipe][other] || other == S || (writes && (r.atomic || other != r.pipe))) continue;
        Stop(r, "%s byte %lld of a GM buffer, which %s at line %d writes, %s", writes ? "writes" : "reads", byte, PipeName(other),
            LineOf(core, other, number),
             other == r.pipe ? "without PipeBarrier" : "and no flag orders them");
    }
}

uint8_t* Reach(Core& core, const Record& r, const Place& place, uint64_t at, uint64_t bytes, bool writes, bool loose) {
    using ull = unsigned long long;
    const char* verb = writes ? "writes" : "reads";
    if (place.mem == GM) {
        bool any = false;
        const int region = RegionOf(place.low, at, bytes, any);
        if (region < 0) {
            if (!any) Stop(r, "%s GM at an address that no argument of the kernel reaches", verb);
            Stop(r, "%s %llu bytes at byte %lld of a GM buffer, which leaves it", verb, static_cast<ull>(bytes),
                static_cast<long long>(at - place.low));
        }
        if (place.high && (at < place.low || at + bytes > place.high))
            Stop(r, "%s %llu bytes at byte %lld of a GM tensor of %llu bytes", verb, static_cast<ull>(bytes),
                static_cast<long long>(at - place.low), static_cast<ull>(place.high - place.low));
        if (now->races) OrderGm(core, r, place, region, at, bytes, writes);
        return reinterpret_cast<uint8_t*>(at);
    }
    if (place.mem == NOWHERE) Stop(r, "an operand has no memory");
    Memory& m = core.mem[place.mem];
    if (m.data.empty()) Stop(r, "this core has no %s", MemName(place.mem));
    if (at + bytes > m.data.size())
        Stop(r, "%s bytes %llu to %llu of %s, which has %llu", verb, static_cast<ull>(at), static_cast<ull>(at + bytes),
            MemName(place.mem), static_cast<ull>(m.data.size()));
    if (!loose && place.high && (at < place.low || at + bytes > place.high))
        Stop(r, "%s bytes %llu to %llu of %s, and its tensor lies in bytes %llu to %llu", verb, static_cast<ull>(at),
            static_cast<ull>(at + bytes), MemName(place.mem),
             static_cast<ull>(place.low), static_cast<ull>(place.high));
    if (bytes == 0) return m.data.data() + at;
    if (place.mem == UB) {
        if (at + bytes > core.ub_top) core.ub_top = static_cast<uint32_t>(at + bytes);
        if (core.reserved_by && core.ub_top > m.data.size() - RESERVED_UB)
            Stop(r, "UB is used beyond byte %llu, and %s keeps the last %u bytes for itself",
                static_cast<ull>(m.data.size() - RESERVED_UB), core.reserved_by, RESERVED_UB);
    }
    if (now->races) Order(core, r, place, at, bytes, writes);
    return m.data.data() + at;
}

void ReserveTop(Core& core, const Record& r) {
    core.reserved_by = r.name;
    const uint64_t most = core.mem[UB].data.size() - RESERVED_UB;
    if (core.ub_top > most) Stop(r, "UB is used beyond byte %llu, and %s keeps the last %u bytes for itself",
        static_cast<unsigned long long>(most), r.name, RESERVED_UB);
}

// ---------------------------------------------------------------- runs of elements

void LoadReals(const uint8_t* from, Type type, int n, float* out) {
    if (type == F32) {
        std::memcpy(out, from, 4 * n);
    } else if (type == F16) {
        int i = 0;
#ifdef __F16C__
        for (; i + 8 <= n; i += 8) {
            const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i));
            _mm256_storeu_ps(out + i, _mm256_cvtph_ps(h));
        }
#endif
        for (; i < n; i++) {
            uint16_t h;
            std::memcpy(&h, from + 2 * i, 2);
            out[i] = HalfToFloat(h);
        }
    } else if (type == BF16) {
        for (int i = 0; i < n; i++) {
            uint16_t h;
            std::memcpy(&h, from + 2 * i, 2);
            out[i] = BfloatToFloat(h);
        }
    }
}

void StoreReals(uint8_t* to, Type type, int n, const float* x) {
    if (type == F32) {
        std::memcpy(to, x, 4 * n);
    } else if (type == F16) {
        int i = 0;
#ifdef __F16C__
        for (; i + 8 <= n; i += 8) {
            const __m256 v = _mm256_loadu_ps(x + i);
            if (_mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q))) break;  // NaN: one spelling of it
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        }
#endif
        for (; i < n; i++) {
            const uint16_t h = FloatToHalf(x[i]);
            std::memcpy(to + 2 * i, &h, 2);
        }
    } else if (type == BF16) {
        for (int i = 0; i < n; i++) {
            const uint16_t h = FloatToBfloat(x[i]);
            std::memcpy(to + 2 * i, &h, 2);
        }
    }
}

template <typename T> static void AddWhole(uint8_t* to, const uint8_t* from, int n) {
    for (int i = 0; i < n; i++) {
        std::make_unsigned_t<T> a, b;
        std::memcpy(&a, to + sizeof(T) * i, sizeof(T)), std::memcpy(&b, from + sizeof(T) * i, sizeof(T));
        a = static_cast<std::make_unsigned_t<T>>(a + b);
        std::memcpy(to + sizeof(T) * i, &a, sizeof(T));
    }
}

void AddRun(uint8_t* to, const uint8_t* from, Type type, int n) {
    if (type == I32) return AddWhole<int32_t>(to, from, n);
    if (type == I16) return AddWhole<int16_t>(to, from, n);
    if (type == I8) return AddWhole<int8_t>(to, from, n);
    const int size = SizeOf(type);
    float x[64], y[64];
    for (int i = 0; i < n; i += 64) {
        const int part = n - i < 64 ? n - i : 64;
        LoadReals(to + i * size, type, part, x), LoadReals(from + i * size, type, part, y);
        for (int j = 0; j < part; j++) x[j] += y[j];
        StoreReals(to + i * size, type, part, x);
    }
}

}  // namespace standin
