// z = x + y over several blocks in tiles with two slots of each buffer; `fault` breaks one rule of the hardware.
#include "kernel_operator.h"
using namespace AscendC;

enum Fault { NONE, FLAG_MISSING, SET_TWICE, LEFT_SET, OFF_BY_16, TILE_TOO_LARGE, OUT_OF_BOUNDS, NO_BARRIER, ID_TOO_LARGE, NEVER_SET,
    FREE_MISSING,
             WRONG_ARGUMENT, BESIDE_TENSOR, COPIES_MEET, BY_HAND, READ_BACK, READ_BACK_BEHIND, OTHER_BLOCK, ENDLESS };

extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t tiles, uint32_t fault) {
#if STANDIN_PRODUCT == 2201
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
#endif
#if STANDIN_PRODUCT == 1001 || STANDIN_RELEASE == 81
    TPipe pipe;
    TBuf<TPosition::VECCALC> ub;
    pipe.InitBuffer(ub, 32768);
    pipe.Destroy();
#else
    InitSocState();
#endif
    constexpr uint32_t N = 1024;
    const uint32_t last = GetBlockNum() - 1;
    GlobalTensor<half> gx, gy, gz;
    gx.SetGlobalBuffer((__gm__ half*)x);
    gy.SetGlobalBuffer((__gm__ half*)(fault == WRONG_ARGUMENT ? y + (1 << 30) : y));
    gz.SetGlobalBuffer((__gm__ half*)z, uint64_t(N) * tiles * GetBlockNum());
    for (int s = 0; s < 2; s++) {
        SetFlag<HardEvent::V_MTE2>(s);  // free
        SetFlag<HardEvent::MTE3_V>(s);
    }
    if (fault == SET_TWICE) SetFlag<HardEvent::V_MTE2>(1);
    if (fault == LEFT_SET) SetFlag<HardEvent::MTE3_MTE2>(0);
    if (fault == ID_TOO_LARGE) SetFlag<HardEvent::MTE3_MTE2>(STANDIN_PRODUCT == 1001 ? 4 : 8);
    if (fault == NEVER_SET) WaitFlag<HardEvent::MTE3_MTE2>(2);
    for (uint32_t i = 0; i < tiles || fault == ENDLESS; i++) {
        const uint32_t s = i % 2, at = (static_cast<uint32_t>(GetBlockIdx()) * tiles + i % tiles) * N, off = fault == OFF_BY_16 ? 8 : 0;
        const uint32_t base = fault == TILE_TOO_LARGE ? 262144 - 4096 : s * 8192;
#if STANDIN_PRODUCT == 1001 || STANDIN_RELEASE == 81
        LocalTensor<half> a = ub.GetWithOffset<half>(N, base), b = ub.GetWithOffset<half>(N, base + 2048), c = ub.GetWithOffset<half>(N,
            base + 4096);
#else
        LocalTensor<half> a(TPosition::VECIN, base, N), b(TPosition::VECIN, base + 2048, N), c(TPosition::VECOUT, base + 4096, N);
#endif
        WaitFlag<HardEvent::V_MTE2>(s);
        DataCopy(a[off], gx[at], N - 2 * off);
        if (fault == COPIES_MEET) DataCopy(a, gx[at], N);
        DataCopy(b, gy[at], N);
        if (fault != FLAG_MISSING) {
            SetFlag<HardEvent::MTE2_V>(s);
            WaitFlag<HardEvent::MTE2_V>(s);
        }
        WaitFlag<HardEvent::MTE3_V>(s);
        if (fault == NO_BARRIER || fault == BY_HAND) {
            Add(c, a, b, N);
            if (fault == BY_HAND) PipeBarrier<PIPE_V>();
            Adds(c, c, (half)0, uint64_t(128), 8, UnaryRepeatParams{1, 1, 8, 8});
        } else {
            Add(c, a, b, fault == BESIDE_TENSOR ? N + 128 : N);
        }
        if (fault != FREE_MISSING) SetFlag<HardEvent::V_MTE2>(s);
        SetFlag<HardEvent::V_MTE3>(s);
        WaitFlag<HardEvent::V_MTE3>(s);
        if (fault == ENDLESS) PipeBarrier<PIPE_MTE3>();
        DataCopy(gz[fault == OUT_OF_BOUNDS && GetBlockIdx() == last ? at + N / 2 : at], c, N);
        SetFlag<HardEvent::MTE3_V>(s);
        if (fault >= READ_BACK && fault != ENDLESS) {
            if (fault == READ_BACK_BEHIND) {
                SetFlag<HardEvent::MTE3_MTE2>(3);
                WaitFlag<HardEvent::MTE3_MTE2>(3);
            }
            const bool next = fault == OTHER_BLOCK;
#if STANDIN_PRODUCT == 2201 && STANDIN_RELEASE > 81
            DataCopy(LocalTensor<half>(TPosition::VECIN, 32768, 16), gz[next ? (at + tiles * N) % (N * tiles * GetBlockNum()) : at], 16);
            PipeBarrier<PIPE_MTE2>();
#endif
        }
    }
    for (int s = 0; s < 2; s++) {
        WaitFlag<HardEvent::V_MTE2>(s);
        WaitFlag<HardEvent::MTE3_V>(s);
    }
    PipeBarrier<PIPE_ALL>();
}
