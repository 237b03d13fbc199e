// Copies and loads by their meaning.
#include <algorithm>

#include "machine.hpp"

namespace standin {

static uint64_t Blocks(uint64_t bytes) { return (bytes + 31) / 32 * 32; }

// Bytes of one burst: length, and in UB the rest of its last block.
static void Bursts(Core& core, const Record& r) {
    const int64_t bursts = r.n[0], length = r.n[1], dst_step = r.n[2], src_step = r.n[3], fill = r.n[4], left = r.n[5], right = r.n[6];
    const int size = SizeOf(r.dst.type);
    if (!bursts || !length) return;
    for (const Place* p : {&r.dst, &r.a}) {
        const char* what = p == &r.dst ? "the target" : "the source";
        if (p->mem == GM) CheckAlign(r, *p, r.pipe == MTE3 || r.pipe == MTE2 ? size : 1, what);
        else CheckAlign(r, *p, p->mem == BT ? 64 : p->mem == FB ? 128 : 32, what);
    }
    const bool adds = r.atomic && r.dst.mem == GM;
    if (adds && r.atomic_type != r.dst.type) Stop(r, "SetAtomicAdd was called for %s, and the copy is of %s", TypeName(r.atomic_type),
        TypeName(r.dst.type));
    std::vector<uint8_t> between;
    for (int64_t b = 0; b < bursts; b++) {
        const uint64_t to = r.dst.at + b * dst_step, from = r.a.at + b * src_step;
        const uint8_t* src = Reach(core, r, r.a, from, length, false);
        const uint64_t written = fill ? Blocks(left + length + right) : length;
        uint8_t* dst = Reach(core, r, r.dst, to, written, true);
        if (adds) {
            AddRun(dst, src, r.dst.type, static_cast<int>(length / size));
            continue;
        }
        std::memmove(dst + left, src, length);
        if (!fill) continue;
        uint8_t one[8];
        if (fill == 1) std::memcpy(one, src, size);
        else std::memcpy(one, &r.bits, size);
        for (int64_t i = 0; i < left; i++) dst[i] = one[i % size];
        for (uint64_t i = left + length; i < written; i++) dst[i] = one[(i - left) % size];
    }
}

static void Nd2Nz(Core& core, const Record& r) {
    const int64_t count = r.n[0], rows = r.n[1], cols = r.n[2], src_matrix = r.n[3], src_row = r.n[4], plane = r.n[5], row = r.n[6],
        dst_matrix = r.n[7];
    const int64_t size = SizeOf(r.dst.type), c0 = 32 / size;
    CheckAlign(r, r.dst, 32, "the target");
    for (int64_t d = 0; d < count; d++)
        for (int64_t i = 0; i < rows; i++) {
            const uint8_t* src = Reach(core, r, r.a, r.a.at + (d * src_matrix + i * src_row) * size, cols * size, false);
            for (int64_t j = 0; j < cols; j += c0) {
                const int64_t n = std::min(c0, cols - j) * size;
                uint8_t* dst = Reach(core, r, r.dst, r.dst.at + d * dst_matrix * size + (j / c0 * plane + i * row) * 32, 32, true);
                std::memcpy(dst, src + j * size, n);
                std::memset(dst + n, 0, 32 - n);
            }
        }
}

static void Load2D(Core& core, const Record& r) {
    const int64_t start = r.n[0], repeat = r.n[1], src_stride = r.n[2], dst_gap = r.n[3], turned = r.n[4];
    CheckAlign(r, r.dst, 512, "the target"), CheckAlign(r, r.a, 32, "the source");
    for (int64_t i = 0; i < repeat; i++) {
        const uint8_t* src = Reach(core, r, r.a, r.a.at + (start + i * src_stride) * 512, 512, false);
        uint8_t* dst = Reach(core, r, r.dst, r.dst.at + i * (1 + dst_gap) * 512, 512, true);
        if (!turned) {
            std::memcpy(dst, src, 512);
            continue;
        }
        for (int row = 0; row < 16; row++)
            for (int col = 0; col < 16; col++) std::memcpy(dst + (row * 16 + col) * 2, src + (col * 16 + row) * 2, 2);
    }
}

// img2col: rows of output positions, columns of (channel block, filter row, filter column); 0 past the last position, as our ISA has it.
static void Load3D(Core& core, const Record& r) {
    const int64_t h = r.n[0], w = r.n[1], channels = r.n[2], k_start = r.n[3], k_size = r.n[4], m_start = r.n[5], m_size = r.n[6],
        stride_h = r.n[7], stride_w = r.n[8],
                  filter_h = r.n[9], filter_w = r.n[10], dilation_h = r.n[11], dilation_w = r.n[12], top = r.n[13], bottom = r.n[14],
                      left = r.n[15], right = r.n[16];
    const int64_t size = SizeOf(r.dst.type), c0 = 32 / size;
    CheckAlign(r, r.dst, 512, "the target"), CheckAlign(r, r.a, 32, "the source");
    if (h < 1 || w < 1 || h > 32767 || w > 32767 || stride_h < 1 || stride_w < 1 || stride_h > 63 || stride_w > 63 || filter_h < 1 ||
        filter_w < 1 || dilation_h < 1 || dilation_w < 1)
        Stop(r, "a field leaves its range: l1H, l1W 1..32767, strides 1..63, filters and dilations from 1");
    if (m_start > 32767) Stop(r, "mStartPt is %d, at most 32767", static_cast<int>(m_start));
    const int64_t wide = (w + left + right - dilation_w * (filter_w - 1) - 1) / stride_w + 1,
        high = (h + top + bottom - dilation_h * (filter_h - 1) - 1) / stride_h + 1;
    if (w + left + right < dilation_w * (filter_w - 1) + 1 || h + top + bottom < dilation_h * (filter_h - 1) + 1) Stop(r,
        "the filter is larger than the padded image");
    const int64_t each = channels == 4 && size == 2 ? 4 : c0, planes = (channels + each - 1) / each;
    const int64_t depth = planes * filter_h * filter_w * each, columns = (k_size + c0 - 1) / c0;
    if (k_start % c0) Stop(r, "kStartPt is %d, no multiple of %d", static_cast<int>(k_start), static_cast<int>(c0));
    if (k_start + k_size > (depth + c0 - 1) / c0 * c0) Stop(r, "kStartPt and kExtension reach column %d of %d",
        static_cast<int>(k_start + k_size), static_cast<int>(depth));
    if (k_size % c0 && k_start + k_size < depth) Stop(r, "kExtension is %d: a multiple of %d unless it reaches the last column",
        static_cast<int>(k_size), static_cast<int>(c0));
    if (m_size % 16 && m_start + m_size < wide * high) Stop(r, "mExtension is %d: a multiple of 16 unless it reaches the last position",
        static_cast<int>(m_size));
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < m_size; i++) {
            const int64_t row = m_start + i;
            uint8_t* dst = Reach(core, r, r.dst, r.dst.at + ((i / 16 * columns + j) * 16 + i % 16) * 32, 32, true);
            for (int64_t e = 0; e < c0; e += each) {
                const int64_t k = k_start + j * c0 + e, tap = k / each, plane = tap / (filter_w * filter_h);
                const int64_t y = row / wide * stride_h + tap / filter_w % filter_h * dilation_h - top,
                    x = row % wide * stride_w + tap % filter_w * dilation_w - left;
                const bool there = row / wide < high && plane < planes, inside = there && y >= 0 && y < h && x >= 0 && x < w;
                if (inside) {
                    std::memcpy(dst + e * size, Reach(core, r, r.a, r.a.at + ((plane * h + y) * w + x) * each * size, each * size, false),
                        each * size);
                    continue;
                }
                const uint64_t blank = there ? static_cast<uint64_t>(r.n[17]) : 0;
                for (int64_t q = 0; q < each; q++) std::memcpy(dst + (e + q) * size, &blank, size);
            }
        }
}

void ExecuteCopy(Core& core, const Record& r) {
    switch (r.op) {
        case Op::Bursts: return Bursts(core, r);
        case Op::Nd2Nz: return Nd2Nz(core, r);
        case Op::Load2D: return Load2D(core, r);
        default: return Load3D(core, r);
    }
}

}  // namespace standin
