// Matrix products, and what leaves L0C. Compiled with contraction: a sum takes a product in one rounding where the processor can,
// in the order of k.
#include <algorithm>
#include <cmath>

#include "machine.hpp"

namespace standin {

typedef float V16 __attribute__((vector_size(64), aligned(4)));
static int64_t Up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// c += A x B for 16 columns and so many rows of c, which lie 16 elements apart; a: rows of `depth`, b: [k][16].
template <int ROWS> static void Panel(const float* a, int64_t depth, const float* b, float* c, int64_t k) {
    V16 sum[ROWS];
    for (int i = 0; i < ROWS; i++) std::memcpy(&sum[i], c + 16 * i, 64);
    for (int64_t p = 0; p < k; p++) {
        V16 row;
        std::memcpy(&row, b + 16 * p, 64);
        for (int i = 0; i < ROWS; i++) sum[i] = sum[i] + a[i * depth + p] * row;
    }
    for (int i = 0; i < ROWS; i++) std::memcpy(c + 16 * i, &sum[i], 64);
}

static void Mmad(Core& core, const Record& r) {
    Record own = r;
    const int64_t m = r.n[0], n = r.n[1], k = r.n[2], init = r.n[3];
    own.n[22] = m * n >= 2560;  // ten fractals: fewer need PipeBarrier before the same L0C again
    if (!m || !n || !k) return;
    CheckAlign(r, r.dst, 1024, "L0C"), CheckAlign(r, r.a, 512, "L0A"), CheckAlign(r, r.b, 512, "L0B");
    const int size = SizeOf(r.a.type);
    const int64_t c0 = 32 / size, rows = Up(m, 16), depth = Up(k, c0), ka = depth / c0, nb = Up(n, 16) / 16;
    const uint8_t* a = Reach(core, own, r.a, r.a.at, m == 1 ? k * size : rows * depth * size, false);
    const uint8_t* b = Reach(core, own, r.b, r.b.at, nb * 16 * depth * size, false);
    uint8_t* c = Reach(core, own, r.dst, r.dst.at, rows * nb * 16 * 4, true);
    const uint8_t* bias = nullptr;
    if (init && r.c.mem == BT) CheckAlign(r, r.c, 64, "the bias"), bias = Reach(core, own, r.c, r.c.at, n * 4, false);
    if (!init) Reach(core, own, r.dst, r.dst.at, rows * nb * 16 * 4, false);

    if (r.a.type == I8) {
        std::vector<int32_t> right(depth * nb * 16);
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n;
                j++) right[p * nb * 16 + j] = static_cast<int8_t>(b[((p / 32 * nb + j / 16) * 16 + j % 16) * 32 + p % 32]);
        std::vector<uint32_t> sum(nb * 16);
        for (int64_t i = 0; i < m; i++) {
            const auto at = [&](int64_t j) { return c + ((j / 16 * rows + i) * 16 + j % 16) * 4; };
            for (int64_t j = 0; j < n; j++) {
                if (!init) std::memcpy(&sum[j], at(j), 4);
                else if (bias) std::memcpy(&sum[j], bias + 4 * j, 4);
                else sum[j] = 0;
            }
            for (int64_t p = 0; p < k; p++) {
                const int32_t x = static_cast<int8_t>(m == 1 ? a[p] : a[((i / 16 * ka + p / 32) * 16 + i % 16) * 32 + p % 32]);
                for (int64_t j = 0; j < n; j++) sum[j] += static_cast<uint32_t>(x * right[p * nb * 16 + j]);
            }
            for (int64_t j = 0; j < n; j++) std::memcpy(at(j), &sum[j], 4);
        }
        return;
    }
    std::vector<float> left(rows * depth), right(nb * depth * 16), line(16);
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < depth; p += c0) {
            if (m == 1) LoadReals(a + p * size, r.a.type, static_cast<int>(std::min(c0, k - p)), &left[p]);
            else LoadReals(a + ((i / 16 * ka + p / c0) * 16 + i % 16) * 32, r.a.type, static_cast<int>(c0), &left[i * depth + p]);
        }
    for (int64_t j = 0; j < nb; j++)
        for (int64_t p = 0; p < depth; p += c0)
            for (int64_t q = 0; q < 16; q++) {
                LoadReals(b + ((p / c0 * nb + j) * 16 + q) * 32, r.b.type, static_cast<int>(c0), line.data());
                for (int64_t x = 0; x < c0; x++) right[(j * depth + p + x) * 16 + q] = line[x];
            }
    std::vector<float> part(rows * 16);
    for (int64_t j = 0; j < nb; j++) {
        float* to = reinterpret_cast<float*>(c) + j * rows * 16;
        const int64_t wide = std::min<int64_t>(16, n - j * 16);
        for (int64_t i = 0; i < m; i++)
            for (int64_t q = 0; q < wide; q++) {
                float start = 0;
                if (!init) start = to[i * 16 + q];
                else if (bias) std::memcpy(&start, bias + 4 * (j * 16 + q), 4);
                part[i * 16 + q] = start;
            }
        int64_t i = 0;
        for (; i + 8 <= m; i += 8) Panel<8>(&left[i * depth], depth, &right[j * depth * 16], &part[i * 16], k);
        for (; i < m; i++) Panel<1>(&left[i * depth], depth, &right[j * depth * 16], &part[i * 16], k);
        for (int64_t row = 0; row < m; row++) std::memcpy(to + row * 16, &part[row * 16], wide * 4);
    }
}

static float Bigger(float a, float b) { return a > b || a != a ? a : b; }

// A word of scales: a float of ten bits behind the point, a zero point of nine bits, and whether results are signed.
static uint8_t Requantize(int32_t v, uint64_t word) {
    const float scale = FloatOf(static_cast<uint32_t>(word) & 0xFFFFE000u);
    const int zero = static_cast<int>((word >> 37 & 0x1FF) ^ 0x100) - 0x100;
    const bool sign = word >> 46 & 1;
    const float scaled = static_cast<float>(v) * scale, whole = std::rint(scaled) + static_cast<float>(zero);
    if (whole != whole) return 0;
    const float low = sign ? -128.0f : 0.0f, high = sign ? 127.0f : 255.0f;
    return static_cast<uint8_t>(static_cast<int32_t>(std::min(std::max(whole, low), high)));
}

static void Fixpipe(Core& core, const Record& r) {
    const int64_t n = r.n[0], m = r.n[1], src_rows = r.n[2], stride = r.n[3], quant = r.n[4], relu = r.n[9], split = r.n[11],
        by_rows = r.n[12];
    if (!n || !m) return;
    if (r.n[6] != 1) Stop(r, "the stand-in has ndNum 1 alone, not %d", static_cast<int>(r.n[6]));
    if (src_rows < m) Stop(r, "srcStride is %d, less than the %d rows", static_cast<int>(src_rows), static_cast<int>(m));
    const int size = SizeOf(r.dst.type), into_bytes = quant == VREQ8 || quant == REQ8;
    CheckAlign(r, r.a, 64, "L0C"), CheckAlign(r, r.dst, by_rows ? size : 32, "the target");
    if (r.atomic && r.atomic_type != r.dst.type) Stop(r, "SetAtomicAdd was called for %s, and the copy is of %s", TypeName(r.atomic_type),
        TypeName(r.dst.type));
    const uint8_t* scales = nullptr;
    if (quant == VREQ8) {
        if (r.b.mem == NOWHERE) Stop(r, "VREQ8 needs SetFixPipeConfig before");
        scales = Reach(core, r, r.b, r.b.at, n * 8, false);
    }
    std::vector<float> line(n);
    std::vector<uint8_t> bytes(n * 4);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j += 16) {
            const int64_t wide = std::min<int64_t>(16, n - j);
            std::memcpy(&line[j], Reach(core, r, r.a, r.a.at + ((j / 16 * src_rows + i) * 16) * 4, wide * 4, false), wide * 4);
        }
        if (r.a.type == F32) {
            for (int64_t j = 0; relu && j < n; j++) line[j] = Bigger(line[j], 0.0f);
            StoreReals(bytes.data(), r.dst.type, static_cast<int>(n), line.data());
        } else {
            for (int64_t j = 0; j < n; j++) {
                int32_t v;
                std::memcpy(&v, &line[j], 4);
                v = relu ? std::max(v, 0) : v;
                uint64_t word = static_cast<uint64_t>(r.n[5]);
                if (scales) std::memcpy(&word, scales + 8 * j, 8);
                if (into_bytes) bytes[j] = Requantize(v, word);
                else std::memcpy(&bytes[4 * j], &v, 4);
            }
        }
        const int64_t run = by_rows ? n : split ? 8 : into_bytes ? 32 : 16;  // elements that lie side by side in GM
        for (int64_t j = 0; j < n; j += run) {
            const int64_t part = std::min(run, n - j);
            const uint64_t at = by_rows ? r.dst.at + i * stride * size : r.dst.at + j / run * stride * 32 + i * run * size;
            uint8_t* dst = Reach(core, r, r.dst, at, part * size, true);
            if (r.atomic) AddRun(dst, &bytes[j * size], r.dst.type, static_cast<int>(part));
            else std::memcpy(dst, &bytes[j * size], part * size);
        }
    }
}

static void Drain(Core& core, const Record& r) {
    const int64_t bursts = r.n[0], length = r.n[1], src_gap = r.n[2], dst_gap = r.n[3], relu = r.n[4];
    const int size = SizeOf(r.dst.type), from_size = SizeOf(r.a.type);
    CheckAlign(r, r.a, 64, "L0C"), CheckAlign(r, r.dst, 32, "the target");
    float line[256];
    for (int64_t b = 0; b < bursts; b++)
        for (int64_t i = 0; i < length; i++) {
            const uint8_t* src = Reach(core, r, r.a, r.a.at + (b * (length + src_gap) + i) * 256 * from_size, 256 * from_size, false);
            uint8_t* dst = Reach(core, r, r.dst, r.dst.at + b * (length * 256 * size + dst_gap * 32) + i * 256 * size, 256 * size, true);
            if (r.a.type == I32) {
                for (int q = 0; q < 256; q++) {
                    int32_t v;
                    std::memcpy(&v, src + 4 * q, 4);
                    v = relu ? std::max(v, 0) : v;
                    std::memcpy(dst + 4 * q, &v, 4);
                }
                continue;
            }
            LoadReals(src, r.a.type, 256, line);
            for (int q = 0; relu && q < 256; q++) line[q] = Bigger(line[q], 0.0f);
            StoreReals(dst, r.dst.type, 256, line);
        }
}

void ExecuteCube(Core& core, const Record& r) {
    if (r.op == Op::Mmad) return Mmad(core, r);
    return r.op == Op::Fixpipe ? Fixpipe(core, r) : Drain(core, r);
}

}  // namespace standin
