// Tensors, positions, masks, flags and cores of the stand-in.
#pragma once
#include "standin_types.h"

namespace AscendC {

#define STANDIN_HERE ::standin::Line here = ::standin::Line()

constexpr standin::Mem StandinMemory(TPosition position) {
    switch (position) {
        case TPosition::GM: return standin::GM;
        case TPosition::A1: case TPosition::B1: return standin::L1;
        case TPosition::A2: return standin::L0A;
        case TPosition::B2: return standin::L0B;
        case TPosition::CO1: return standin::L0C;
        case TPosition::C1: return standin::A2 ? standin::L1 : standin::UB;
        case TPosition::C2: return standin::A2 ? standin::BT : standin::L0C;
        case TPosition::CO2: return standin::A2 ? standin::GM : standin::UB;
        case TPosition::C2PIPE2GM: return standin::A2 ? standin::FB : standin::NOWHERE;
        case TPosition::VECIN: case TPosition::VECOUT: case TPosition::VECCALC: return standin::UB;
        default: return standin::NOWHERE;
    }
}

template <typename T> class LocalTensor {
public:
    using PrimType = T;
    standin::Place standin_place;

    LocalTensor() = default;
#if STANDIN_RELEASE >= 85 && STANDIN_PRODUCT != 1001
    LocalTensor(TPosition position, uint32_t address, uint32_t elements, STANDIN_HERE) {
        standin::UseAddresses(here.number);
        Put(StandinMemory(position), address, elements, here);
    }
#endif
    static LocalTensor StandinMake(standin::Mem memory, uint64_t address, uint64_t elements, standin::Line here) {
        LocalTensor out;
        out.Put(memory, address, elements, here);
        return out;
    }
    LocalTensor operator[](uint32_t offset) const {
        LocalTensor out = *this;
        out.standin_place.at += offset * sizeof(T);
        return out;
    }
    template <typename U> LocalTensor<U> ReinterpretCast() const {
        LocalTensor<U> out;
        out.standin_place = standin_place;
        out.standin_place.type = standin::TypeOf<U>();
        return out;
    }
    T GetValue(uint32_t offset, STANDIN_HERE) const {
        uint64_t bits = standin::ReadScalar((*this)[offset].standin_place, sizeof(T), here.number);
        T out;
        std::memcpy(static_cast<void*>(&out), &bits, sizeof(T));
        return out;
    }
    void SetValue(uint32_t offset, T value, STANDIN_HERE) const {
        standin::WriteScalar((*this)[offset].standin_place, sizeof(T), standin::Bits(value), here.number);
    }
    T* GetPhyAddr(uint32_t offset = 0) const { return reinterpret_cast<T*>(static_cast<uintptr_t>(standin_place.at + offset * sizeof(T))); }
    uint32_t GetSize() const { return static_cast<uint32_t>((standin_place.high - standin_place.at) / sizeof(T)); }

private:
    void Put(standin::Mem memory, uint64_t address, uint64_t elements, standin::Line here) {
        if (memory == standin::NOWHERE || memory == standin::GM) standin::Fail(here.number, "LocalTensor",
            "this position has no memory on a core of this product");
        if (address % 32) standin::Fail(here.number, "LocalTensor", "address %llu is no multiple of 32 bytes",
            static_cast<unsigned long long>(address));
        standin_place = {memory, standin::TypeOf<T>(), address, address, address + elements * sizeof(T)};
    }
};

template <typename T> class GlobalTensor {
public:
    using PrimType = T;
    standin::Place standin_place{standin::GM, standin::TypeOf<T>(), 0, 0, 0};

    void SetGlobalBuffer(T* buffer, uint64_t elements = 0) {
        uint64_t at = reinterpret_cast<uint64_t>(buffer);
        standin_place = {standin::GM, standin::TypeOf<T>(), at, at, elements ? at + elements * sizeof(T) : 0};
    }
    GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor out = *this;
        out.standin_place.at += offset * sizeof(T);
        return out;
    }
    T GetValue(uint64_t offset, STANDIN_HERE) const {
        uint64_t bits = standin::ReadScalar((*this)[offset].standin_place, sizeof(T), here.number);
        T out;
        std::memcpy(static_cast<void*>(&out), &bits, sizeof(T));
        return out;
    }
    void SetValue(uint64_t offset, T value, STANDIN_HERE) const {
        standin::WriteScalar((*this)[offset].standin_place, sizeof(T), standin::Bits(value), here.number);
    }
    const T* GetPhyAddr(uint64_t offset = 0) const { return reinterpret_cast<const T*>(standin_place.at + offset * sizeof(T)); }
};

// ---- the TBuf spelling: a buffer a memory, and tensors in it by offset
template <TPosition position> class TBuf {
public:
    uint64_t standin_at = 0, standin_bytes = 0;
    template <typename T> LocalTensor<T> Get(STANDIN_HERE) const { return Get<T>(static_cast<uint32_t>(standin_bytes / sizeof(T)), here); }
    template <typename T> LocalTensor<T> Get(uint32_t elements, STANDIN_HERE) const {
        if (elements * sizeof(T) > standin_bytes) standin::Fail(here.number, "TBuf::Get",
            "%u elements are more than the buffer's %llu bytes", elements, static_cast<unsigned long long>(standin_bytes));
        return LocalTensor<T>::StandinMake(StandinMemory(position), standin_at, elements, here);
    }
    template <typename T> LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t bytes, STANDIN_HERE) const {
        if (bytes + elements * sizeof(T) > standin_bytes) standin::Fail(here.number, "TBuf::GetWithOffset",
            "%u elements from byte %u are more than the buffer's %llu bytes", elements, bytes,
            static_cast<unsigned long long>(standin_bytes));
        return LocalTensor<T>::StandinMake(StandinMemory(position), standin_at + bytes, elements, here);
    }
};
class TPipe {
public:
    template <TPosition position> bool InitBuffer(TBuf<position>& buffer, uint32_t bytes, STANDIN_HERE) {
        buffer.standin_bytes = (bytes + 31) / 32 * 32;
        buffer.standin_at = standin::Reserve(StandinMemory(position), buffer.standin_bytes, here.number);
        return true;
    }
    void Destroy() {}
};
inline void InitSocState() { standin::SetMask(~0ull, ~0ull), standin::SetCounter(false), standin::SetAtomic(false, standin::F32); }

// ---- cores
inline int64_t GetBlockIdx() { return standin::BlockIndex(); }
inline int64_t GetBlockNum() { return standin::BlockCount(); }
inline int64_t GetSubBlockIdx() { return standin::SubBlockIndex(); }
inline int64_t GetTaskRatio() { return standin::TaskRatio(); }

// ---- flags
constexpr standin::Pipe StandinPipe(pipe_t pipe) { return static_cast<standin::Pipe>(pipe); }
template <HardEvent event> void SetFlag(int32_t id, STANDIN_HERE) {
    standin::SetFlag(static_cast<standin::Pipe>(static_cast<int>(event) / 7), static_cast<standin::Pipe>(static_cast<int>(event) % 7), id,
        here.number);
}
template <HardEvent event> void WaitFlag(int32_t id, STANDIN_HERE) {
    standin::WaitFlag(static_cast<standin::Pipe>(static_cast<int>(event) / 7), static_cast<standin::Pipe>(static_cast<int>(event) % 7), id,
        here.number);
}
template <pipe_t pipe> void PipeBarrier(STANDIN_HERE) {
    static_assert(pipe != PIPE_S, "stand-in: PipeBarrier takes any pipe but PIPE_S");
    standin::Barrier(StandinPipe(pipe), here.number);
}
#if STANDIN_PRODUCT == 2201
template <uint8_t mode, pipe_t pipe> void CrossCoreSetFlag(uint16_t id, STANDIN_HERE) {
    static_assert(mode <= 2, "stand-in: CrossCoreSetFlag has the modes 0, 1 and 2 on this product");
    standin::CrossSet(mode, StandinPipe(pipe), id, here.number);
}
template <uint8_t mode = 0, pipe_t pipe = PIPE_S> void CrossCoreWaitFlag(uint16_t id, STANDIN_HERE) { standin::CrossWait(id, here.number); }
#endif

// ---- masks and other states of the scalar unit
template <typename T, MaskMode mode = MaskMode::NORMAL> void SetVectorMask(uint64_t high, uint64_t low) { standin::SetMask(high, low); }
template <typename T, MaskMode mode = MaskMode::NORMAL> void SetVectorMask(int32_t length) {
    if constexpr (mode == MaskMode::COUNTER) standin::SetMask(0, static_cast<uint64_t>(length));
    else standin::SetMask(length >= 128 ? ~0ull : length > 64 ? (1ull << (length - 64)) - 1 : 0, length >= 64 ? ~0ull
        : (1ull << length) - 1);
}
inline void SetMaskNorm() { standin::SetCounter(false); }
#if STANDIN_PRODUCT != 1001
inline void SetMaskCount() { standin::SetCounter(true); }
inline void ResetMask() { standin::SetMask(~0ull, ~0ull); }
#endif
template <typename T> void SetAtomicAdd() {
    static_assert(std::is_same_v<T, float> || (!standin::A910 && standin::IsAny<T, half, int16_t>) || (standin::A2 && standin::IsAny<T,
        int32_t, bfloat16_t, int8_t>),
                  "stand-in: this product adds no elements of this type");
    standin::SetAtomic(true, standin::TypeOf<T>());
}
#if STANDIN_RELEASE >= 91
inline void DisableDmaAtomic() { standin::SetAtomic(false, standin::F32); }
#else
inline void SetAtomicNone() { standin::SetAtomic(false, standin::F32); }
#endif
inline void SetDeqScale(half scale) { standin::SetDeqScale(scale.bits); }

}  // namespace AscendC
