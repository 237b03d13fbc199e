// Kernel elementwise for Ascend910B3 (product 2201), spelt for CANN 8.5; 2 blocks.
// Addresses, flags, loops, slots and cores are those of the program that it was written from.
#include "kernel_operator.h"

using namespace AscendC;

#ifdef AOEC_TBUF  // tensors in one buffer a memory, for releases and products that make none by address
#define AOEC_TENSOR(type, name, position, memory, address, elements) LocalTensor<type> name = memory.GetWithOffset<type>(elements, address)
#else
#define AOEC_TENSOR(type, name, position, memory, address, elements) LocalTensor<type> name(TPosition::position, address, elements)
#endif

namespace aoec {

__aicore__ inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

__aicore__ inline int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

__aicore__ inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

__aicore__ inline void copy_gm_ub(const LocalTensor<half>& dst, const GlobalTensor<half>& src, int64_t bursts,
        int64_t length, int64_t src_gap, int64_t dst_gap)
{
    DataCopyPad(dst, src, DataCopyExtParams{static_cast<uint16_t>(bursts), static_cast<uint32_t>(length),
            static_cast<uint32_t>(src_gap), static_cast<uint32_t>(dst_gap), 0}, DataCopyPadExtParams<half>{false, 0, 0,
            static_cast<half>(0)});
}

__aicore__ inline void vmuls(const LocalTensor<half>& dst, const LocalTensor<half>& src, half scalar, int64_t lanes,
        int64_t repeat, int64_t dst_blk, int64_t src_blk, int64_t dst_rep, int64_t src_rep)
{
    const int64_t done = lanes == 128 ? repeat : repeat - 1;  // whole repeats
    const UnaryRepeatParams params{static_cast<uint8_t>(dst_blk), static_cast<uint8_t>(src_blk),
            static_cast<uint8_t>(dst_rep), static_cast<uint8_t>(src_rep)};
    PipeBarrier<PIPE_V>();
    if (done > 0) {
        Muls(dst, src, scalar, 128, static_cast<uint8_t>(done), params);
    }
    if (done >= 0 && done < repeat) {
        PipeBarrier<PIPE_V>();
        Muls(dst[done * dst_rep * 16], src[done * src_rep * 16], scalar, static_cast<uint64_t>(lanes), 1, params);
    }
}

__aicore__ inline void vadd(const LocalTensor<half>& dst, const LocalTensor<half>& src0, const LocalTensor<half>& src1,
        int64_t lanes, int64_t repeat, int64_t dst_blk, int64_t src0_blk, int64_t src1_blk, int64_t dst_rep,
        int64_t src0_rep, int64_t src1_rep)
{
    const int64_t done = lanes == 128 ? repeat : repeat - 1;  // whole repeats
    const BinaryRepeatParams params{static_cast<uint8_t>(dst_blk), static_cast<uint8_t>(src0_blk),
            static_cast<uint8_t>(src1_blk), static_cast<uint8_t>(dst_rep), static_cast<uint8_t>(src0_rep),
            static_cast<uint8_t>(src1_rep)};
    PipeBarrier<PIPE_V>();
    if (done > 0) {
        Add(dst, src0, src1, 128, static_cast<uint8_t>(done), params);
    }
    if (done >= 0 && done < repeat) {
        PipeBarrier<PIPE_V>();
        Add(dst[done * dst_rep * 16], src0[done * src0_rep * 16], src1[done * src1_rep * 16],
                static_cast<uint64_t>(lanes), 1, params);
    }
}

__aicore__ inline void vrelu(const LocalTensor<half>& dst, const LocalTensor<half>& src, int64_t lanes, int64_t repeat,
        int64_t dst_blk, int64_t src_blk, int64_t dst_rep, int64_t src_rep)
{
    const int64_t done = lanes == 128 ? repeat : repeat - 1;  // whole repeats
    const UnaryRepeatParams params{static_cast<uint8_t>(dst_blk), static_cast<uint8_t>(src_blk),
            static_cast<uint8_t>(dst_rep), static_cast<uint8_t>(src_rep)};
    PipeBarrier<PIPE_V>();
    if (done > 0) {
        Relu(dst, src, 128, static_cast<uint8_t>(done), params);
    }
    if (done >= 0 && done < repeat) {
        PipeBarrier<PIPE_V>();
        Relu(dst[done * dst_rep * 16], src[done * src_rep * 16], static_cast<uint64_t>(lanes), 1, params);
    }
}

__aicore__ inline void copy_ub_gm(const GlobalTensor<half>& dst, const LocalTensor<half>& src, int64_t bursts,
        int64_t length, int64_t src_gap, int64_t dst_gap)
{
    DataCopyPad(dst, src, DataCopyExtParams{static_cast<uint16_t>(bursts), static_cast<uint32_t>(length),
            static_cast<uint32_t>(src_gap), static_cast<uint32_t>(dst_gap), 0});
}

}  // namespace aoec

extern "C" __global__ __aicore__ void elementwise(GM_ADDR X_gm, GM_ADDR Z_gm, GM_ADDR Y_gm)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<half> X;
    X.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(X_gm));
    GlobalTensor<half> Z;
    Z.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(Z_gm));
    GlobalTensor<half> Y;
    Y.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(Y_gm));
#ifdef AOEC_TBUF
    TPipe pipe;
    TBuf<TPosition::VECCALC> UB;
    pipe.InitBuffer(UB, 3072);
    pipe.Destroy();
#else
    InitSocState();
#endif
    AOEC_TENSOR(half, x, VECCALC, UB, 0, 512);
    AOEC_TENSOR(half, z, VECCALC, UB, 1024, 512);
    AOEC_TENSOR(half, y, VECCALC, UB, 2048, 512);
    const int64_t block = GetBlockIdx();
    const int64_t core = block;
    int64_t i = 0;
    int64_t o = 0;
    for (int64_t d = 0; d < 2; ++d) {
        SetFlag<HardEvent::V_MTE2>(d);
        SetFlag<HardEvent::MTE3_V>(d);
    }
    for (int64_t t = 0; t < 4; ++t) {
        WaitFlag<HardEvent::V_MTE2>(i);
        aoec::copy_gm_ub(x[i * 256], X[core * 1000 + t * 256], 1, aoec::least(256, 1000 - t * 256) * 2, 0, 0);
        aoec::copy_gm_ub(z[i * 256], Z[core * 1000 + t * 256], 1, aoec::least(256, 1000 - t * 256) * 2, 0, 0);
        SetFlag<HardEvent::MTE2_V>(i);
        WaitFlag<HardEvent::MTE2_V>(i);
        WaitFlag<HardEvent::MTE3_V>(o);
        aoec::vmuls(x[i * 256], x[i * 256], static_cast<half>(2.0f), aoec::least(256, 1000 - t * 256) - (aoec::ceil_div(aoec::least(256, 1000 - t * 256), 128) - 1) * 128, aoec::ceil_div(aoec::least(256, 1000 - t * 256), 128), 1, 1, 8, 8);
        aoec::vadd(y[o * 256], x[i * 256], z[i * 256], aoec::least(256, 1000 - t * 256) - (aoec::ceil_div(aoec::least(256, 1000 - t * 256), 128) - 1) * 128, aoec::ceil_div(aoec::least(256, 1000 - t * 256), 128), 1, 1, 1, 8, 8, 8);
        SetFlag<HardEvent::V_MTE2>(i);
        aoec::vrelu(y[o * 256], y[o * 256], aoec::least(256, 1000 - t * 256) - (aoec::ceil_div(aoec::least(256, 1000 - t * 256), 128) - 1) * 128, aoec::ceil_div(aoec::least(256, 1000 - t * 256), 128), 1, 1, 8, 8);
        SetFlag<HardEvent::V_MTE3>(o);
        WaitFlag<HardEvent::V_MTE3>(o);
        aoec::copy_ub_gm(Y[core * 1000 + t * 256], y[o * 256], 1, aoec::least(256, 1000 - t * 256) * 2, 0, 0);
        SetFlag<HardEvent::MTE3_V>(o);
        i = (i + 1) % 2;
        o = (o + 1) % 2;
    }
    for (int64_t e = 0; e < 2; ++e) {
        WaitFlag<HardEvent::V_MTE2>(e);
        WaitFlag<HardEvent::MTE3_V>(e);
    }
    PipeBarrier<PIPE_ALL>();
}
