// A product on cube cores, whose halves two vector cores of each group double behind a flag between cores. `fault`: 1 does not wait for
// the cube core, 2 does not tell it that its workspace is free again, 3 sets a flag for nobody.
#include "kernel_operator.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void mixed(GM_ADDR a, GM_ADDR b, GM_ADDR work, GM_ADDR out, uint32_t rounds, uint32_t fault) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    InitSocState();
    GlobalTensor<half> ga, gb;
    GlobalTensor<float> gw, go;
    ga.SetGlobalBuffer((__gm__ half*)a);
    gb.SetGlobalBuffer((__gm__ half*)b);
    gw.SetGlobalBuffer((__gm__ float*)work);
    go.SetGlobalBuffer((__gm__ float*)out);
    if ASCEND_IS_AIC {
        const uint32_t block = static_cast<uint32_t>(GetBlockIdx());
        LocalTensor<half> a1(TPosition::A1, 0, 256), b1(TPosition::B1, 512, 256), a2(TPosition::A2, 0, 256), b2(TPosition::B2, 0, 256);
        LocalTensor<float> co(TPosition::CO1, 0, 256);
        for (uint32_t i = 0; i < rounds; i++) {
            const uint32_t at = (block * rounds + i) * 256;
            DataCopy(a1, ga[at], 256);
            DataCopy(b1, gb[at], 256);
            SetFlag<HardEvent::MTE2_MTE1>(0);
            WaitFlag<HardEvent::MTE2_MTE1>(0);
            LoadData(a2, a1, LoadData2DParams{0, 1, 1, 0, 0, false, 0});
            LoadData(b2, b1, LoadData2DParams{0, 1, 1, 0, 0, false, 0});
            SetFlag<HardEvent::MTE1_M>(0);
            WaitFlag<HardEvent::MTE1_M>(0);
            MmadParams p;
            p.m = p.n = p.k = 16;
            Mmad(co, a2, b2, p);
            SetFlag<HardEvent::M_FIX>(0);
            WaitFlag<HardEvent::M_FIX>(0);
            if (i > 0 && fault != 2) CrossCoreWaitFlag(1);
            FixpipeParamsV220 f;
            f.nSize = f.mSize = f.srcStride = f.dstStride = 16;
            Fixpipe<float, float, CFG_ROW_MAJOR>(gw[block * 256], co, f);
            CrossCoreSetFlag<2, PIPE_FIX>(0);
            PipeBarrier<PIPE_ALL>();
        }
    }
    if ASCEND_IS_AIV {
        const uint32_t block = static_cast<uint32_t>(GetBlockIdx() / GetTaskRatio()), half_of = static_cast<uint32_t>(GetSubBlockIdx());
        LocalTensor<float> x(TPosition::VECIN, 0, 128);
        for (uint32_t i = 0; i < rounds; i++) {
            if (fault != 1) CrossCoreWaitFlag(0);
            DataCopy(x, gw[block * 256 + half_of * 128], 128);
            SetFlag<HardEvent::MTE2_V>(0);
            WaitFlag<HardEvent::MTE2_V>(0);
            if (i + 1 < rounds && fault != 2) CrossCoreSetFlag<2, PIPE_MTE2>(1);
            Add(x, x, x, 128);
            SetFlag<HardEvent::V_MTE3>(0);
            WaitFlag<HardEvent::V_MTE3>(0);
            DataCopy(go[(block * rounds + i) * 256 + half_of * 128], x, 128);
            PipeBarrier<PIPE_ALL>();
        }
        if (fault == 3) CrossCoreSetFlag<1, PIPE_MTE3>(5);
    }
    PipeBarrier<PIPE_ALL>();
}
