// Kernel matmul_bias_relu for Ascend910B3 (product 2201), spelt for CANN 8.5; 3 blocks.
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

__aicore__ inline void copy_gm_l1(const LocalTensor<float>& dst, const GlobalTensor<float>& src, int64_t bursts,
        int64_t length, int64_t src_gap, int64_t dst_gap)
{
    DataCopy(dst, src, DataCopyParams{static_cast<uint16_t>(bursts), static_cast<uint16_t>(length),
            static_cast<uint16_t>(src_gap), static_cast<uint16_t>(dst_gap)});
}

__aicore__ inline void load_bt(const LocalTensor<float>& dst, const LocalTensor<float>& src, int64_t length)
{
    DataCopy(dst, src, DataCopyParams{static_cast<uint16_t>(1), static_cast<uint16_t>((length + 1) / 2),
            static_cast<uint16_t>(0), static_cast<uint16_t>(0)});
}

__aicore__ inline void copy_gm_l1(const LocalTensor<half>& dst, const GlobalTensor<half>& src, int64_t bursts,
        int64_t length, int64_t src_gap, int64_t dst_gap)
{
    DataCopy(dst, src, DataCopyParams{static_cast<uint16_t>(bursts), static_cast<uint16_t>(length),
            static_cast<uint16_t>(src_gap), static_cast<uint16_t>(dst_gap)});
}

__aicore__ inline void copy_gm_l1_nd2nz(const LocalTensor<half>& dst, const GlobalTensor<half>& src, int64_t rows,
        int64_t cols, int64_t src_stride, int64_t dst_rows)
{
    // one matrix: rows, columns, stride between matrices, between rows; in L1 between planes, rows, matrices
    DataCopy(dst, src, Nd2NzParams{1, static_cast<uint16_t>(rows), static_cast<uint16_t>(cols), 0,
            static_cast<uint16_t>(src_stride), static_cast<uint16_t>(dst_rows), 1, 0});
}

__aicore__ inline void load3d(const LocalTensor<half>& dst, const LocalTensor<half>& src, int64_t h, int64_t w,
        int64_t channels, int64_t k_start, int64_t k_size, int64_t m_start, int64_t m_size, int64_t stride_h,
        int64_t stride_w, int64_t filter_h, int64_t filter_w, int64_t dilation_h, int64_t dilation_w, int64_t pad_top,
        int64_t pad_bottom, int64_t pad_left, int64_t pad_right, int64_t pad_value = 0)
{
    LoadData3DParamsV2<half> params;
    params.padList[0] = static_cast<uint8_t>(pad_left);
    params.padList[1] = static_cast<uint8_t>(pad_right);
    params.padList[2] = static_cast<uint8_t>(pad_top);
    params.padList[3] = static_cast<uint8_t>(pad_bottom);
    params.l1H = static_cast<uint16_t>(h);
    params.l1W = static_cast<uint16_t>(w);
    params.strideW = static_cast<uint8_t>(stride_w);
    params.strideH = static_cast<uint8_t>(stride_h);
    params.dilationFilterW = static_cast<uint8_t>(dilation_w);
    params.dilationFilterH = static_cast<uint8_t>(dilation_h);
    params.padValue = static_cast<half>(0);
    const int64_t taps = filter_h * filter_w, most_k = channels == 4 ? taps * 4 - k_start : k_size + 16;
    const int64_t whole_k = (k_size + 15) / 16 * 16;
    params.channelSize = static_cast<uint16_t>(channels == 4 ? 4 : (channels + 15) / 16 * 16);
    params.kExtension = static_cast<uint16_t>(whole_k < most_k ? whole_k : most_k);
    params.mExtension = static_cast<uint16_t>((m_size + 15) / 16 * 16);
    params.kStartPt = static_cast<uint16_t>(k_start);
    params.mStartPt = static_cast<uint16_t>(m_start);
    params.filterW = static_cast<uint8_t>(filter_w > 255 ? filter_w - 256 : filter_w);
    params.filterH = static_cast<uint8_t>(filter_h > 255 ? filter_h - 256 : filter_h);
    params.enTranspose = false;
    params.enSmallK = false;
    params.filterSizeW = filter_w > 255;
    params.filterSizeH = filter_h > 255;
    params.fMatrixCtrl = false;
    LoadData(dst, src, params);
}

__aicore__ inline void load_l0b(const LocalTensor<half>& dst, const LocalTensor<half>& src, int64_t repeat,
        int64_t src_stride, int64_t dst_gap, int64_t transpose)
{
    // start, fractals, source stride, sid, target gap, transpose, address mode
    LoadData(dst, src, LoadData2DParams{0, static_cast<uint8_t>(repeat), static_cast<uint16_t>(src_stride), 0,
            static_cast<uint16_t>(dst_gap), transpose != 0, 0});
}

__aicore__ inline void mmad_bias(const LocalTensor<float>& dst, const LocalTensor<half>& a, const LocalTensor<half>& b,
        const LocalTensor<float>& bias, int64_t m, int64_t n, int64_t k, int64_t init)
{
    MmadParams params;
    params.m = static_cast<uint16_t>(m == 1 ? 16 : m);
    params.n = static_cast<uint16_t>(n);
    params.k = static_cast<uint16_t>(k);
    params.cmatrixInitVal = false;
    params.cmatrixSource = false;
    params.unitFlag = 0;
    if (m / 16 * (n / 16) < 10) {
        PipeBarrier<PIPE_M>();
    }
    if (init != 0) {
        Mmad(dst, a, b, bias, params);
    } else {
        Mmad(dst, a, b, params);
    }
}

__aicore__ inline void fixpipe_nd(const GlobalTensor<half>& dst, const LocalTensor<float>& src, int64_t m, int64_t n,
        int64_t src_rows, int64_t dst_stride, int64_t relu)
{
    FixpipeParamsV220 params;
    params.nSize = static_cast<uint16_t>(n);
    params.mSize = static_cast<uint16_t>(m);
    params.srcStride = static_cast<uint16_t>(src_rows);
    params.dstStride = static_cast<uint32_t>(dst_stride);
    params.quantPre = QuantMode_t::F322F16;
    params.deqScalar = 0;
    params.ndNum = 1;
    params.srcNdStride = 0;
    params.dstNdStride = 0;
    params.reluEn = relu != 0;
    params.unitFlag = 0;
    Fixpipe<half, float, CFG_ROW_MAJOR>(dst, src, params);
}

}  // namespace aoec

extern "C" __global__ __aicore__ void matmul_bias_relu(GM_ADDR A_gm, GM_ADDR B_gm, GM_ADDR bias_gm, GM_ADDR Y_gm)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GlobalTensor<half> A;
    A.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(A_gm));
    GlobalTensor<half> B;
    B.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(B_gm));
    GlobalTensor<float> bias;
    bias.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(bias_gm));
    GlobalTensor<half> Y;
    Y.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(Y_gm));
#ifdef AOEC_TBUF
    TPipe pipe;
    TBuf<TPosition::A2> L0A;
    pipe.InitBuffer(L0A, 4096);
    TBuf<TPosition::B2> L0B;
    pipe.InitBuffer(L0B, 8192);
    TBuf<TPosition::A1> L1;
    pipe.InitBuffer(L1, 6656);
    TBuf<TPosition::C2> BT;
    pipe.InitBuffer(BT, 128);
    TBuf<TPosition::CO1> L0C;
    pipe.InitBuffer(L0C, 2048);
    pipe.Destroy();
#else
    InitSocState();
#endif
    AOEC_TENSOR(half, A_L0A, A2, L0A, 0, 2048);
    AOEC_TENSOR(half, B_L0B, B2, L0B, 0, 4096);
    AOEC_TENSOR(half, A_L1, A1, L1, 0, 1024);
    AOEC_TENSOR(half, B_L1, B1, L1, 2048, 2048);
    AOEC_TENSOR(float, bias_L1, C1, L1, 6144, 128);
    AOEC_TENSOR(float, bias_BT, C2, BT, 0, 32);
    AOEC_TENSOR(float, C, CO1, L0C, 0, 512);
    const int64_t block = GetBlockIdx();
    const int64_t m_c = block;
    const int64_t n_c = 0;
    int64_t A_L0A_slot = 0;
    int64_t B_L0B_slot = 0;
    for (int64_t preset_0 = 0; preset_0 < 2; ++preset_0) {
        SetFlag<HardEvent::M_MTE1>(preset_0);
    }
    for (int64_t preset_1 = 0; preset_1 < 2; ++preset_1) {
        SetFlag<HardEvent::M_MTE1>(preset_1 + 2);
    }
    for (int64_t preset_2 = 0; preset_2 < 1; ++preset_2) {
        SetFlag<HardEvent::MTE1_MTE2>(0);
    }
    for (int64_t preset_3 = 0; preset_3 < 1; ++preset_3) {
        SetFlag<HardEvent::MTE1_MTE2>(1);
    }
    for (int64_t preset_4 = 0; preset_4 < 1; ++preset_4) {
        SetFlag<HardEvent::FIX_M>(0);
    }
    for (int64_t preset_5 = 0; preset_5 < 1; ++preset_5) {
        SetFlag<HardEvent::MTE1_MTE2>(2);
    }
    for (int64_t preset_6 = 0; preset_6 < 1; ++preset_6) {
        SetFlag<HardEvent::M_MTE1>(4);
    }
    for (int64_t m_s = 0; m_s < 1; ++m_s) {
        for (int64_t n_s = 0; n_s < 1; ++n_s) {
            WaitFlag<HardEvent::MTE1_MTE2>(2);
            aoec::copy_gm_l1(bias_L1[0], bias[0], 1, 3, 0, 0);
            SetFlag<HardEvent::MTE2_MTE1>(2);
            WaitFlag<HardEvent::M_MTE1>(4);
            WaitFlag<HardEvent::MTE2_MTE1>(2);
            aoec::load_bt(bias_BT[0], bias_L1[0], 3);
            SetFlag<HardEvent::MTE1_MTE2>(2);
            SetFlag<HardEvent::MTE1_M>(4);
            WaitFlag<HardEvent::FIX_M>(0);
            WaitFlag<HardEvent::MTE1_M>(4);
            for (int64_t k_2 = 0; k_2 < 1; ++k_2) {
                WaitFlag<HardEvent::MTE1_MTE2>(1);
                aoec::copy_gm_l1(B_L1[0], B[0], 4, 32, 0, 0);
                SetFlag<HardEvent::MTE2_MTE1>(1);
                WaitFlag<HardEvent::MTE2_MTE1>(1);
                for (int64_t k_1 = 0; k_1 < 1; ++k_1) {
                    WaitFlag<HardEvent::MTE1_MTE2>(0);
                    aoec::copy_gm_l1_nd2nz(A_L1[0], A[m_c * 800], aoec::least(37 - m_c * 16, 16), 50, 50, 16);
                    SetFlag<HardEvent::MTE2_MTE1>(0);
                    WaitFlag<HardEvent::MTE2_MTE1>(0);
                    for (int64_t k_0 = 0; k_0 < 1; ++k_0) {
                        WaitFlag<HardEvent::M_MTE1>(A_L0A_slot);
                        aoec::load3d(A_L0A[A_L0A_slot * 1024], A_L1[0], 1, 16, 64, 0, 50, 0, aoec::least(37 - m_c * 16, 16), 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
                        SetFlag<HardEvent::MTE1_M>(A_L0A_slot);
                        WaitFlag<HardEvent::M_MTE1>(B_L0B_slot + 2);
                        for (int64_t k1_1 = 0; k1_1 < 4; ++k1_1) {
                            aoec::load_l0b(B_L0B[B_L0B_slot * 2048 + k1_1 * 512], B_L1[k1_1 * 512], 2, 1, 0, 0);
                        }
                        SetFlag<HardEvent::MTE1_M>(B_L0B_slot + 2);
                        WaitFlag<HardEvent::MTE1_M>(A_L0A_slot);
                        WaitFlag<HardEvent::MTE1_M>(B_L0B_slot + 2);
                        aoec::mmad_bias(C[0], A_L0A[A_L0A_slot * 1024], B_L0B[B_L0B_slot * 2048], bias_BT[0], aoec::least(37 - m_c * 16, 16), 21, 50, 1);
                        SetFlag<HardEvent::M_MTE1>(A_L0A_slot);
                        SetFlag<HardEvent::M_MTE1>(B_L0B_slot + 2);
                        A_L0A_slot = (A_L0A_slot + 1) % 2;
                        B_L0B_slot = (B_L0B_slot + 1) % 2;
                    }
                    SetFlag<HardEvent::MTE1_MTE2>(0);
                }
                SetFlag<HardEvent::MTE1_MTE2>(1);
            }
            SetFlag<HardEvent::M_MTE1>(4);
            SetFlag<HardEvent::M_FIX>(0);
            WaitFlag<HardEvent::M_FIX>(0);
            aoec::fixpipe_nd(Y[m_c * 336], C[0], aoec::least(37 - m_c * 16, 16), 21, 16, 21, 1);
            SetFlag<HardEvent::FIX_M>(0);
        }
    }
    for (int64_t drain_0 = 0; drain_0 < 2; ++drain_0) {
        WaitFlag<HardEvent::M_MTE1>(drain_0);
    }
    for (int64_t drain_1 = 0; drain_1 < 2; ++drain_1) {
        WaitFlag<HardEvent::M_MTE1>(drain_1 + 2);
    }
    for (int64_t drain_2 = 0; drain_2 < 1; ++drain_2) {
        WaitFlag<HardEvent::MTE1_MTE2>(0);
    }
    for (int64_t drain_3 = 0; drain_3 < 1; ++drain_3) {
        WaitFlag<HardEvent::MTE1_MTE2>(1);
    }
    for (int64_t drain_4 = 0; drain_4 < 1; ++drain_4) {
        WaitFlag<HardEvent::FIX_M>(0);
    }
    for (int64_t drain_5 = 0; drain_5 < 1; ++drain_5) {
        WaitFlag<HardEvent::MTE1_MTE2>(2);
    }
    for (int64_t drain_6 = 0; drain_6 < 1; ++drain_6) {
        WaitFlag<HardEvent::M_MTE1>(4);
    }
    PipeBarrier<PIPE_ALL>();
}
