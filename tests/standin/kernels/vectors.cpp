// Vector instructions, one kernel a subject: copy in, one or a few calls, copy out.
#include "kernel_operator.h"
using namespace AscendC;

template <typename T> __aicore__ inline GlobalTensor<T> At(GM_ADDR address) {
    GlobalTensor<T> out;
    out.SetGlobalBuffer((__gm__ T*)address);
    return out;
}
#define KERNEL extern "C" __global__ __vector__ void
#define WAIT_IN SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0)
#define WAIT_OUT SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0)

// The sum, greatest and least of each of 8 rows of 64 floats, of which the last `lanes` count; least with its place.
KERNEL reductions(GM_ADDR x, GM_ADDR sums, GM_ADDR greatest, GM_ADDR pairs, GM_ADDR blocks, uint32_t lanes) {
    LocalTensor<float> in(TPosition::VECIN, 0, 512), s(TPosition::VECOUT, 2048, 8), g(TPosition::VECOUT, 2080, 8), p(TPosition::VECOUT,
        2112, 16), b(TPosition::VECOUT, 2304, 64);
    DataCopy(in, At<float>(x), 512);
    WAIT_IN;
    ReduceRepeat<ReduceType::SUM>(s, in, static_cast<int32_t>(lanes), 8, 1, 1, 8);
    ReduceRepeat<ReduceType::MAX>(g, in, static_cast<int32_t>(lanes), 8, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
    ReduceRepeat<ReduceType::MIN>(p, in, static_cast<int32_t>(lanes), 8, 1, 1, 8, ReduceOrder::ORDER_VALUE_INDEX);
    ReduceDataBlock<ReduceType::SUM>(b, in, 64, 8, 1, 1, 8);
    WAIT_OUT;
    DataCopy(At<float>(blocks), b, 64);
    DataCopy(At<float>(sums), s, 8);
    DataCopy(At<float>(greatest), g, 8);
    DataCopy(At<float>(pairs), p, 16);
    PipeBarrier<PIPE_ALL>();
}

// Every pair of elements that this product casts: 128 of them, by a round mode.
template <typename T, typename U> __aicore__ inline void CastAll(GM_ADDR x, GM_ADDR z, uint32_t mode) {
    LocalTensor<U> in(TPosition::VECIN, 0, 128);
    LocalTensor<T> out(TPosition::VECOUT, 4096, 128);
    DataCopy(in, At<U>(x), 128);
    WAIT_IN;
    SetDeqScale((half)1);
    Cast(out, in, static_cast<RoundMode>(mode), 128);
    WAIT_OUT;
    DataCopy(At<T>(z), out, 128);
    PipeBarrier<PIPE_ALL>();
}
#define CAST(TO, FROM) KERNEL cast_##FROM##_to_##TO(GM_ADDR x, GM_ADDR z, uint32_t mode) { CastAll<TO, FROM>(x, z, mode); }
CAST(float, half) CAST(float, bfloat16_t) CAST(half, int8_t) CAST(half, uint8_t) CAST(float, int16_t) CAST(int32_t, int64_t) CAST(int64_t,
    int32_t)
CAST(int16_t, int32_t) CAST(half, float) CAST(bfloat16_t, float) CAST(int32_t, float) CAST(int16_t, float) CAST(int64_t, float) CAST(float,
    float)
CAST(int32_t, half) CAST(int16_t, half) CAST(int8_t, half) CAST(uint8_t, half) CAST(float, int32_t) CAST(float, int64_t) CAST(half, int32_t)

// Where x < y the element of x, elsewhere that of y; and where x > 0.5 x, elsewhere -1.
KERNEL selections(GM_ADDR x, GM_ADDR y, GM_ADDR least, GM_ADDR cut, uint32_t count) {
    TPipe pipe;  // Select is in no list of calls beside tensors made by address
    TBuf<TPosition::VECCALC> ub;
    pipe.InitBuffer(ub, 4352);
    pipe.Destroy();
    LocalTensor<half> a = ub.GetWithOffset<half>(512, 0), b = ub.GetWithOffset<half>(512, 1024), l = ub.GetWithOffset<half>(512, 2048),
        c = ub.GetWithOffset<half>(512, 3072);
    LocalTensor<uint8_t> bits = ub.GetWithOffset<uint8_t>(64, 4096), more = ub.GetWithOffset<uint8_t>(64, 4160);
    if (count > 512) LocalTensor<half>(TPosition::VECCALC, 8192, 16);
    DataCopy(a, At<half>(x), 512);
    DataCopy(b, At<half>(y), 512);
    WAIT_IN;
    Duplicate(l, (half)7, 512);
    Duplicate(c, (half)7, uint64_t(128), 4, 1, 8);
    Compare(bits, a, b, CMPMODE::LT, uint64_t(128), 4, BinaryRepeatParams{1, 1, 1, 8, 8, 8});
    Compares(more, a, (half)0.5, CMPMODE::GT, uint64_t(128), 4, UnaryRepeatParams{1, 1, 8, 8});
    PipeBarrier<PIPE_V>();
    Select(l, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);
    SetMaskCount();
    Select(c, more, a, (half)-1, SELMODE::VSEL_TENSOR_SCALAR_MODE, uint64_t(count), 1, BinaryRepeatParams{1, 1, 1, 8, 8, 8});
    SetMaskNorm();
    WAIT_OUT;
    DataCopy(At<half>(least), l, 512);
    DataCopy(At<half>(cut), c, 512);
    PipeBarrier<PIPE_ALL>();
}

// 16 rows of 16 halves turned; 8 floats, each of which fills a block; the first 20 of each 32 floats packed; elements by their offsets.
KERNEL rearranged(GM_ADDR x, GM_ADDR turned, GM_ADDR filled, GM_ADDR packed, GM_ADDR offsets, GM_ADDR gathered, GM_ADDR turned32) {
    LocalTensor<half> in(TPosition::VECIN, 0, 256), t(TPosition::VECOUT, 512, 256);
    LocalTensor<float> f(TPosition::VECIN, 0, 128), b(TPosition::VECOUT, 1024, 64), k(TPosition::VECOUT, 2048, 96), g(TPosition::VECOUT,
        4096, 64),
        t32(TPosition::VECOUT, 8192, 128);
    LocalTensor<uint32_t> o(TPosition::VECIN, 3072, 64);
    DataCopy(in, At<half>(x), 256);
    DataCopy(o, At<uint32_t>(offsets), 64);
    WAIT_IN;
    uint64_t to[16], from[16], to32[16], from32[16];
    for (int i = 0; i < 16; i++) {
        from[i] = (uint64_t)in[i * 16].GetPhyAddr();
        to[i] = (uint64_t)t[i * 16].GetPhyAddr();
        from32[i] = (uint64_t)f[i * 8].GetPhyAddr();
        to32[i] = (uint64_t)t32[i / 2 * 16 + i % 2 * 8].GetPhyAddr();
    }
    TransDataTo5HD<half>(to, from, TransDataTo5HDParams{false, false, 1, 0, 0});
    TransDataTo5HD<float>(to32, from32, TransDataTo5HDParams{false, false, 1, 0, 0});
    Brcb(b, f, 1, BrcbRepeatParams{1, 8});
    uint64_t count = 0;
    GatherMask(k, f, static_cast<uint8_t>(7), true, 20, GatherMaskParams{1, 4, 4, 0}, count);
    Gather(g, f, o, 0, 64);
    WAIT_OUT;
    DataCopy(At<half>(turned), t, 256);
    DataCopy(At<float>(filled), b, 64);
    DataCopyPad(At<float>(packed), k, DataCopyExtParams{1, static_cast<uint32_t>(count * 4), 0, 0, 0});
    DataCopy(At<float>(gathered), g, 64);
    DataCopy(At<float>(turned32), t32, 128);
    PipeBarrier<PIPE_ALL>();
}

// Rows of 5 bytes more than a block; lanes by a bit mask; shifts and bits of whole numbers; an index that the scalar unit reads.
KERNEL pieces(GM_ADDR x, GM_ADDR z, GM_ADDR w, GM_ADDR bits, GM_ADDR one) {
    LocalTensor<int8_t> rows(TPosition::VECIN, 0, 256);
    LocalTensor<float> v(TPosition::VECCALC, 1024, 64);
    LocalTensor<uint32_t> i(TPosition::VECCALC, 2048, 64), j(TPosition::VECCALC, 2304, 64);
    LocalTensor<int32_t> n(TPosition::VECIN, 4096, 8);
    DataCopyPad(rows, At<int8_t>(x), DataCopyExtParams{3, 37, 3, 1, 0}, DataCopyPadExtParams<int8_t>{false, 0, 0, 0});
    DataCopy(i, At<uint32_t>(w), 64);
    DataCopy(n, At<int32_t>(w), 8);
    SetFlag<HardEvent::MTE2_S>(1);
    WaitFlag<HardEvent::MTE2_S>(1);
    const int32_t index = n.GetValue(3) % 3;
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    SetFlag<HardEvent::MTE2_MTE3>(2);
    WaitFlag<HardEvent::MTE2_MTE3>(2);
    DataCopyPad(At<int8_t>(z), rows, DataCopyExtParams{3, 37, 1, 0, 0});
    const uint64_t odd[2] = {0xAAAAAAAAAAAAAAAAull, 0};
    Duplicate(v, 1.0f, 64);
    PipeBarrier<PIPE_V>();
    Duplicate(v, 2.0f, odd, 1, 1, 8);
    ShiftLeft(j, i, (uint32_t)3, 64);
    PipeBarrier<PIPE_V>();
    ShiftRight(j, j, (uint32_t)1, uint64_t(64), 1, UnaryRepeatParams{1, 1, 8, 8});
    PipeBarrier<PIPE_V>();
    And(j.ReinterpretCast<uint16_t>(), j.ReinterpretCast<uint16_t>(), i.ReinterpretCast<uint16_t>(), 128);
    PipeBarrier<PIPE_V>();
    Not(i.ReinterpretCast<int16_t>(), j.ReinterpretCast<int16_t>(), 128);
    WAIT_OUT;
    DataCopy(At<uint32_t>(bits), i, 64);
    DataCopy(At<float>(one), v[index * 8], 8);
    PipeBarrier<PIPE_ALL>();
}
