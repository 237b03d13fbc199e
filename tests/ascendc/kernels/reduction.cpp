// Kernel reduction for Ascend910B3 (product 2201), spelt for CANN 8.5; 3 blocks.
// Addresses, flags, loops, slots and cores are those of the program that it was written from.
#include "kernel_operator.h"

using namespace AscendC;

#ifdef AOEC_TBUF  // tensors in one buffer a memory, for releases and products that make none by address
#define AOEC_TENSOR(type, name, position, memory, address, elements) LocalTensor<type> name = memory.GetWithOffset<type>(elements, address)
#else
#define AOEC_TENSOR(type, name, position, memory, address, elements) LocalTensor<type> name(TPosition::position, address, elements)
#endif

namespace aoec {

__aicore__ inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

__aicore__ inline void copy_gm_ub(const LocalTensor<float>& dst, const GlobalTensor<float>& src, int64_t bursts,
        int64_t length, int64_t src_gap, int64_t dst_gap)
{
    DataCopyPad(dst, src, DataCopyExtParams{static_cast<uint16_t>(bursts), static_cast<uint32_t>(length),
            static_cast<uint32_t>(src_gap), static_cast<uint32_t>(dst_gap), 0}, DataCopyPadExtParams<float>{false, 0, 0,
            static_cast<float>(0)});
}

__aicore__ inline void vcopy(const LocalTensor<float>& dst, const LocalTensor<float>& src, int64_t lanes, int64_t repeat,
        int64_t dst_blk, int64_t src_blk, int64_t dst_rep, int64_t src_rep)
{
    const int64_t done = lanes == 64 ? repeat : repeat - 1;  // whole repeats
    const CopyRepeatParams params{static_cast<uint16_t>(dst_blk), static_cast<uint16_t>(src_blk),
            static_cast<uint16_t>(dst_rep), static_cast<uint16_t>(src_rep)};
    PipeBarrier<PIPE_V>();
    if (done > 0) {
        Copy(dst, src, 64, static_cast<uint8_t>(done), params);
    }
    if (done >= 0 && done < repeat) {
        PipeBarrier<PIPE_V>();
        Copy(dst[done * dst_rep * 8], src[done * src_rep * 8], static_cast<uint64_t>(lanes), 1, params);
    }
}

__aicore__ inline void vmin(const LocalTensor<float>& dst, const LocalTensor<float>& src0,
        const LocalTensor<float>& src1, int64_t lanes, int64_t repeat, int64_t dst_blk, int64_t src0_blk,
        int64_t src1_blk, int64_t dst_rep, int64_t src0_rep, int64_t src1_rep)
{
    const int64_t done = lanes == 64 ? repeat : repeat - 1;  // whole repeats
    const BinaryRepeatParams params{static_cast<uint8_t>(dst_blk), static_cast<uint8_t>(src0_blk),
            static_cast<uint8_t>(src1_blk), static_cast<uint8_t>(dst_rep), static_cast<uint8_t>(src0_rep),
            static_cast<uint8_t>(src1_rep)};
    PipeBarrier<PIPE_V>();
    if (done > 0) {
        Min(dst, src0, src1, 64, static_cast<uint8_t>(done), params);
    }
    if (done >= 0 && done < repeat) {
        PipeBarrier<PIPE_V>();
        Min(dst[done * dst_rep * 8], src0[done * src0_rep * 8], src1[done * src1_rep * 8], static_cast<uint64_t>(lanes),
                1, params);
    }
}

__aicore__ inline void vnchwconv(const LocalTensor<float>& dst, const LocalTensor<float>& src, int64_t repeat,
        int64_t dst_stride, int64_t dst_half, int64_t src_stride, int64_t dst_rep, int64_t src_rep, int64_t dst_high = 0,
        int64_t src_high = 0)
{
    PipeBarrier<PIPE_V>();
    if (repeat <= 0) {
        return;
    }
    uint64_t to[16], from[16];
    for (int64_t i = 0; i < 16; ++i) {
        to[i] = reinterpret_cast<uint64_t>(dst[(i / 2 * dst_stride + i % 2 * dst_half) * 8].GetPhyAddr());
        from[i] = reinterpret_cast<uint64_t>(src[i * src_stride * 8].GetPhyAddr());
    }
    const TransDataTo5HDParams params{dst_high != 0, src_high != 0, static_cast<uint8_t>(repeat),
            static_cast<uint16_t>(repeat > 1 ? dst_rep : 0), static_cast<uint16_t>(repeat > 1 ? src_rep : 0)};
    TransDataTo5HD<float>(to, from, params);
}

__aicore__ inline void vbrcb(const LocalTensor<float>& dst, const LocalTensor<float>& src, int64_t repeat,
        int64_t dst_blk, int64_t dst_rep)
{
    PipeBarrier<PIPE_V>();
    if (repeat > 0) {
        Brcb(dst, src, static_cast<uint8_t>(repeat), BrcbRepeatParams{static_cast<uint16_t>(dst_blk),
                static_cast<uint16_t>(dst_rep)});
    }
}

__aicore__ inline void copy_ub_gm(const GlobalTensor<float>& dst, const LocalTensor<float>& src, int64_t bursts,
        int64_t length, int64_t src_gap, int64_t dst_gap)
{
    DataCopyPad(dst, src, DataCopyExtParams{static_cast<uint16_t>(bursts), static_cast<uint32_t>(length),
            static_cast<uint32_t>(src_gap), static_cast<uint32_t>(dst_gap), 0});
}

}  // namespace aoec

extern "C" __global__ __aicore__ void reduction(GM_ADDR X_gm, GM_ADDR Y_gm)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<float> X;
    X.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(X_gm));
    GlobalTensor<float> Y;
    Y.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(Y_gm));
#ifdef AOEC_TBUF
    TPipe pipe;
    TBuf<TPosition::VECCALC> UB;
    pipe.InitBuffer(UB, 23552);
    pipe.Destroy();
#else
    InitSocState();
#endif
    AOEC_TENSOR(float, X_UB, VECCALC, UB, 0, 1536);
    AOEC_TENSOR(float, t0, VECCALC, UB, 6144, 512);
    AOEC_TENSOR(float, scratch_1, VECCALC, UB, 8704, 128);
    AOEC_TENSOR(float, scratch_3, VECCALC, UB, 17408, 384);
    AOEC_TENSOR(float, scratch_4, VECCALC, UB, 18944, 384);
    AOEC_TENSOR(float, scratch_5, VECCALC, UB, 20480, 384);
    AOEC_TENSOR(float, scratch_6, VECCALC, UB, 22016, 384);
    const int64_t block = GetBlockIdx();
    const int64_t out_i0_c = block;
    int64_t t0_slot = 0;
    int64_t X_UB_slot = 0;
    for (int64_t preset_0 = 0; preset_0 < 2; ++preset_0) {
        SetFlag<HardEvent::MTE3_V>(preset_0);
    }
    for (int64_t preset_1 = 0; preset_1 < 2; ++preset_1) {
        SetFlag<HardEvent::V_MTE2>(preset_1);
    }
    for (int64_t out_i0_s = 0; out_i0_s < 1; ++out_i0_s) {
        WaitFlag<HardEvent::V_MTE2>(X_UB_slot);
        for (int64_t burst_1 = 0; burst_1 < 1; ++burst_1) {
            aoec::copy_gm_ub(X_UB[X_UB_slot * 768], X[out_i0_c * 648], aoec::least(70 - out_i0_c * 24, 24), 108, 0, 0);
        }
        SetFlag<HardEvent::MTE2_V>(X_UB_slot);
        WaitFlag<HardEvent::MTE3_V>(t0_slot);
        WaitFlag<HardEvent::MTE2_V>(X_UB_slot);
        for (int64_t when_8 = 0; when_8 < 1; ++when_8) {
            for (int64_t batch_5 = 0; batch_5 < 1; ++batch_5) {
                aoec::vcopy(scratch_3[0], X_UB[X_UB_slot * 768], aoec::least(70 - out_i0_c * 24, 24) * 8 - 128, 3, 1, 4, 8, 32);
                for (int64_t fold_6 = 0; fold_6 < 2; ++fold_6) {
                    aoec::vmin(scratch_3[0], scratch_3[0], X_UB[X_UB_slot * 768 + (fold_6 * 8 + 8)], aoec::least(70 - out_i0_c * 24, 24) * 8 - 128, 3, 1, 1, 4, 8, 8, 32);
                }
                aoec::vnchwconv(scratch_4[0], scratch_3[0], 2, 2, 1, 1, 17, 16);
                aoec::vcopy(scratch_5[0], X_UB[X_UB_slot * 768 + 24], aoec::least(70 - out_i0_c * 24, 24) * 8 - 128, 3, 1, 4, 8, 32);
                aoec::vnchwconv(scratch_6[0], scratch_5[0], 2, 2, 1, 1, 17, 16);
                for (int64_t lane_7 = 0; lane_7 < 3; ++lane_7) {
                    aoec::vmin(scratch_4[0], scratch_4[0], scratch_6[lane_7 * 16], 16, 1, 17, 17, 17, 136, 136, 136);
                    aoec::vmin(scratch_4[8], scratch_4[8], scratch_6[lane_7 * 16 + 8], 16, 1, 17, 17, 17, 136, 136, 136);
                }
                aoec::vmin(scratch_4[0], scratch_4[0], scratch_4[64], 64, 2, 1, 1, 1, 17, 17, 17);
                aoec::vmin(scratch_4[0], scratch_4[0], scratch_4[32], 64, 2, 1, 1, 1, 17, 17, 17);
                aoec::vmin(scratch_1[0], scratch_4[0], scratch_4[16], 16, 1, 2, 17, 17, 16, 136, 136);
                aoec::vmin(scratch_1[8], scratch_4[8], scratch_4[24], 16, 1, 2, 17, 17, 16, 136, 136);
            }
        }
        for (int64_t rows_2 = 0; rows_2 < 1; ++rows_2) {
            aoec::vbrcb(t0[t0_slot * 256], scratch_1[0], 3, 1, 8);
        }
        SetFlag<HardEvent::V_MTE2>(X_UB_slot);
        SetFlag<HardEvent::V_MTE3>(t0_slot);
        WaitFlag<HardEvent::V_MTE3>(t0_slot);
        for (int64_t burst_10 = 0; burst_10 < 1; ++burst_10) {
            aoec::copy_ub_gm(Y[out_i0_c * 24], t0[t0_slot * 256], aoec::least(70 - out_i0_c * 24, 24), 4, 0, 0);
        }
        SetFlag<HardEvent::MTE3_V>(t0_slot);
        t0_slot = (t0_slot + 1) % 2;
        X_UB_slot = (X_UB_slot + 1) % 2;
    }
    for (int64_t drain_0 = 0; drain_0 < 2; ++drain_0) {
        WaitFlag<HardEvent::MTE3_V>(drain_0);
    }
    for (int64_t drain_1 = 0; drain_1 < 2; ++drain_1) {
        WaitFlag<HardEvent::V_MTE2>(drain_1);
    }
    PipeBarrier<PIPE_ALL>();
}
