// Calls that a product lacks, by name, so that who uses one is told which product has none.
#pragma once
#include "standin_vectors.h"

namespace AscendC {

#define STANDIN_LACKS(NAME)                                                                            \
    template <typename... ARGS> void NAME(ARGS&&...) {                                                 \
        static_assert(standin::Never<ARGS...>, "stand-in: this product lacks the call " #NAME);        \
    }
#if STANDIN_PRODUCT != 2201
STANDIN_LACKS(DataCopyPad)
STANDIN_LACKS(SetPadValue)
STANDIN_LACKS(LoadDataWithTranspose)
STANDIN_LACKS(SetFixPipeConfig)
STANDIN_LACKS(SetFixpipeNz2ndFlag)
STANDIN_LACKS(Copy)
STANDIN_LACKS(ShiftLeft)
STANDIN_LACKS(ShiftRight)
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR, typename... ARGS> void Fixpipe(ARGS&&...) {
    static_assert(standin::Never<ARGS...>, "stand-in: this product lacks the call Fixpipe");
}
template <uint8_t mode, pipe_t pipe> void CrossCoreSetFlag(uint16_t) {
    static_assert(mode > 255, "stand-in: this product lacks the call CrossCoreSetFlag");
}
template <uint8_t mode = 0, pipe_t pipe = PIPE_S> void CrossCoreWaitFlag(uint16_t) {
    static_assert(mode > 255, "stand-in: this product lacks the call CrossCoreWaitFlag");
}
template <typename C, typename A, typename B, typename X>
void Mmad(const LocalTensor<C>&, const LocalTensor<A>&, const LocalTensor<B>&, const LocalTensor<X>&, const MmadParams&) {
    static_assert(standin::Never<X>, "stand-in: this product lacks the form of Mmad with a bias");
}
#endif
#if STANDIN_PRODUCT == 1001
STANDIN_LACKS(Maxs)
STANDIN_LACKS(Mins)
STANDIN_LACKS(AddRelu)
STANDIN_LACKS(AddReluCast)
STANDIN_LACKS(Brcb)
STANDIN_LACKS(GatherMask)
STANDIN_LACKS(Gather)
STANDIN_LACKS(SetMaskCount)
STANDIN_LACKS(ResetMask)
STANDIN_LACKS(SetFmatrix)
STANDIN_LACKS(SetLoadDataPaddingValue)
STANDIN_LACKS(SetLoadDataBoundary)
#if STANDIN_RELEASE >= 91
STANDIN_LACKS(Compares)
#else
STANDIN_LACKS(CompareScalar)
#endif
template <typename T> void DataCopy(const LocalTensor<T>&, const GlobalTensor<T>&, const Nd2NzParams&) {
    static_assert(standin::Never<T>, "stand-in: this product lacks the form of DataCopy with Nd2NzParams");
}
template <typename T> void LoadData(const LocalTensor<T>&, const LocalTensor<T>&, const LoadData3DParamsV2<T>&) {
    static_assert(standin::Never<T>, "stand-in: this product lacks the form of LoadData with LoadData3DParamsV2");
}
#endif

}  // namespace AscendC
