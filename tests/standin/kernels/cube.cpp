// Products of matrices and a convolution, on one cube core.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint16_t M = 32, K = 64, N = 48;

// C[32, 48] = A[32, 64] x B[64, 48] + bias: rows to fractals on the way into L1, a load for each row of fractals, rows out.
template <typename T, typename C, typename O>
__aicore__ inline void Product(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR out, QuantMode_t mode, bool relu, uint8_t unit) {
    GlobalTensor<T> ga, gb;
    GlobalTensor<C> gbias;
    GlobalTensor<O> go;
    ga.SetGlobalBuffer((__gm__ T*)a);
    gb.SetGlobalBuffer((__gm__ T*)b);
    gbias.SetGlobalBuffer((__gm__ C*)bias);
    go.SetGlobalBuffer((__gm__ O*)out);
    LocalTensor<T> a1(TPosition::A1, 0, M * K), b1(TPosition::B1, 16384, K * N), a2(TPosition::A2, 0, M * K), b2(TPosition::B2, 0, K * N);
    LocalTensor<C> c1(TPosition::C1, 65536, 64), c2(TPosition::C2, 0, 64), co(TPosition::CO1, 1024, M * N);
    DataCopy(a1, ga, Nd2NzParams{1, M, K, 0, K, M, 1, 0});
    DataCopy(b1, gb, Nd2NzParams{1, K, N, 0, N, K, 1, 0});
    DataCopy(c1, gbias, 64);
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    for (int i = 0; i < M / 16; i++) LoadData(a2[i * K * 16], a1[i * 256], LoadData2DParams{0, K / 16, M / 16, 0, 0, false, 0});
    for (int i = 0; i < K / 16; i++) LoadData(b2[i * N * 16], b1[i * 256], LoadData2DParams{0, N / 16, K / 16, 0, 0, true, 0});
    DataCopy(c2, c1, DataCopyParams{1, 4, 0, 0});
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
    MmadParams p;
    p.m = M, p.n = N, p.k = K, p.cmatrixInitVal = false, p.unitFlag = unit;
    Mmad(co, a2, b2, c2, p);
    if (!unit) {
        SetFlag<HardEvent::M_FIX>(0);
        WaitFlag<HardEvent::M_FIX>(0);
    }
    FixpipeParamsV220 f;
    f.nSize = N, f.mSize = M, f.srcStride = M, f.dstStride = N, f.quantPre = mode, f.reluEn = relu, f.unitFlag = unit;
    Fixpipe<O, C, CFG_ROW_MAJOR>(go, co, f);
    PipeBarrier<PIPE_ALL>();
}
extern "C" __global__ __cube__ void product_half(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR out, uint32_t unit) {
    Product<half, float, half>(a, b, bias, out, F322F16, true, unit);
}
extern "C" __global__ __cube__ void product_bfloat(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR out, uint32_t unit) {
    Product<bfloat16_t, float, float>(a, b, bias, out, NoQuant, false, unit);
}

// Out[positions, 16] = image [c1][h][w][16] with a filter of 3 x 3 by im2col; weights lie as fractals.
extern "C" __global__ __cube__ void convolution(GM_ADDR x, GM_ADDR w, GM_ADDR out, uint32_t h, uint32_t wide, uint32_t c1, uint32_t pad,
    uint32_t stride,
                                                uint32_t dilation, uint32_t positions) {
    GlobalTensor<half> gx, gw, go;
    gx.SetGlobalBuffer((__gm__ half*)x);
    gw.SetGlobalBuffer((__gm__ half*)w);
    go.SetGlobalBuffer((__gm__ half*)out);
    const uint16_t k = static_cast<uint16_t>(c1 * 9 * 16), m = static_cast<uint16_t>((positions + 15) / 16 * 16);
    LocalTensor<half> x1(TPosition::A1, 0, c1 * h * wide * 16), w1(TPosition::B1, 131072, k * 16), a(TPosition::A2, 0, m * k),
        b(TPosition::B2, 0, k * 16);
    LocalTensor<float> co(TPosition::CO1, 0, m * 16);
    DataCopy(x1, gx, c1 * h * wide * 16);
    DataCopy(w1, gw, k * 16);
    SetFlag<HardEvent::MTE2_MTE1>(3);
    WaitFlag<HardEvent::MTE2_MTE1>(3);
    LoadData3DParamsV2<half> p;
    for (int i = 0; i < 4; i++) p.padList[i] = static_cast<uint8_t>(pad);
    p.l1H = h, p.l1W = wide, p.channelSize = c1 * 16, p.kExtension = k, p.mExtension = m, p.kStartPt = 0, p.mStartPt = 0;
    p.strideW = p.strideH = stride, p.filterW = p.filterH = 3, p.dilationFilterW = p.dilationFilterH = dilation;
    LoadData(a, x1, p);
    LoadData(b, w1, LoadData2DParams{0, static_cast<uint8_t>(k / 16), 1, 0, 0, false, 0});
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
    MmadParams q;
    q.m = m, q.n = 16, q.k = k, q.cmatrixInitVal = true;
    Mmad(co, a, b, q);
    SetFlag<HardEvent::M_FIX>(0);
    WaitFlag<HardEvent::M_FIX>(0);
    FixpipeParamsV220 f;
    f.nSize = 16, f.mSize = positions, f.srcStride = m, f.dstStride = 16, f.quantPre = F322F16;
    Fixpipe<half, float, CFG_ROW_MAJOR>(go, co, f);
    PipeBarrier<PIPE_ALL>();
}

// int8 x int8 into int32, and by a word of scales a column into int8: out[32, 32] of A (ZZ) and B (ZN) as they lie in L0.
extern "C" __global__ __cube__ void requantized(GM_ADDR a, GM_ADDR b, GM_ADDR scales, GM_ADDR out, GM_ADDR planes) {
    GlobalTensor<int8_t> ga, gb, go, gp;
    GlobalTensor<uint64_t> gs;
    ga.SetGlobalBuffer((__gm__ int8_t*)a);
    gb.SetGlobalBuffer((__gm__ int8_t*)b);
    gs.SetGlobalBuffer((__gm__ uint64_t*)scales);
    go.SetGlobalBuffer((__gm__ int8_t*)out);
    gp.SetGlobalBuffer((__gm__ int8_t*)planes);
    LocalTensor<int8_t> a1(TPosition::A1, 0, 2048), b1(TPosition::B1, 4096, 2048), a2(TPosition::A2, 0, 2048), b2(TPosition::B2, 0, 2048);
    LocalTensor<uint64_t> s1(TPosition::C1, 8192, 32), fb(TPosition::C2PIPE2GM, 0, 32);
    LocalTensor<int32_t> co(TPosition::CO1, 0, 1024);
    DataCopy(a1, ga, 2048);
    DataCopy(b1, gb, 2048);
    DataCopy(s1, gs, 32);
    SetFlag<HardEvent::MTE2_MTE1>(0);
    SetFlag<HardEvent::MTE2_FIX>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    LoadData(a2, a1, LoadData2DParams{0, 4, 1, 0, 0, false, 0});
    LoadData(b2, b1, LoadData2DParams{0, 4, 1, 0, 0, false, 0});
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
    MmadParams p;
    p.m = 32, p.n = 32, p.k = 64;
    Mmad(co, a2, b2, p);
    SetFlag<HardEvent::M_FIX>(0);
    WaitFlag<HardEvent::M_FIX>(0);
    WaitFlag<HardEvent::MTE2_FIX>(0);
    DataCopy(fb, s1, DataCopyParams{1, 2, 0, 0});
    PipeBarrier<PIPE_FIX>();
    FixpipeParamsV220 f;
    f.nSize = 32, f.mSize = 32, f.srcStride = 32, f.dstStride = 32, f.quantPre = VREQ8, f.reluEn = true;
    Fixpipe<int8_t, int32_t, CFG_ROW_MAJOR>(go, co, s1, f);
    SetFixPipeConfig<uint64_t>(fb);
    DataCopyCO12DstParams d;
    d.nSize = 32, d.mSize = 32, d.dstStride = 32, d.srcStride = 32, d.quantPre = VREQ8, d.reluPre = 1;
    DataCopy(gp, co, d);
    PipeBarrier<PIPE_ALL>();
}

// Partial sums of two blocks, added in GM. Of so few fractals an Mmad on the same L0C needs a barrier before it.
extern "C" __global__ __cube__ void summed(GM_ADDR a, GM_ADDR b, GM_ADDR out, uint32_t barrier) {
    GlobalTensor<float> ga, gb, go;
    ga.SetGlobalBuffer((__gm__ float*)a);
    gb.SetGlobalBuffer((__gm__ float*)b);
    go.SetGlobalBuffer((__gm__ float*)out);
    const uint32_t block = static_cast<uint32_t>(GetBlockIdx());
    LocalTensor<float> a1(TPosition::A1, 0, 256), b1(TPosition::B1, 4096, 256), a2(TPosition::A2, 0, 256), b2(TPosition::B2, 0, 256),
        co(TPosition::CO1, 0, 256);
    DataCopy(a1, ga[block * 256], 256);
    DataCopy(b1, gb[block * 256], 256);
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    LoadData(a2, a1, LoadData2DParams{0, 2, 1, 0, 0, false, 0});
    LoadData(b2, b1, LoadData2DParams{0, 2, 1, 0, 0, false, 0});
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
    for (int i = 0; i < 2; i++) {
        MmadParams p;
        p.m = 16, p.n = 16, p.k = 8, p.cmatrixInitVal = i == 0;
        Mmad(co, a2[i * 128], b2[i * 128], p);
        if (barrier) PipeBarrier<PIPE_M>();
    }
    SetFlag<HardEvent::M_FIX>(0);
    WaitFlag<HardEvent::M_FIX>(0);
    FixpipeParamsV220 f;
    f.nSize = 16, f.mSize = 16, f.srcStride = 16, f.dstStride = 16;
    SetAtomicAdd<float>();
    Fixpipe<float, float, CFG_ROW_MAJOR>(go, co, f);
    DisableDmaAtomic();
    PipeBarrier<PIPE_ALL>();
}
