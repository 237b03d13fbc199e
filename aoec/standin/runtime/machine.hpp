// Cores, memories and queues of the stand-in, and the checks that every access goes through.
#pragma once
#include <ucontext.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#define STANDIN_RUNTIME
#include "standin_types.h"

namespace standin {

struct Fault {
    std::string text;
    int kind = 1;  // what the launch answers: 1 a broken rule, 3 that time is up
};

constexpr int IDS = 8, CROSS_IDS = 16, CROSS_MOST = 15, QUEUE_DEPTH = 32;
constexpr int MEMS = 8;
constexpr uint32_t RESERVED_UB = 8192;
using Clock = std::array<uint32_t, PIPES>;  // of each pipe, how many of its instructions are certain to be done

struct Memory {
    std::vector<uint8_t> data;
    uint32_t unit = 32;                            // bytes that are tracked together
    std::vector<uint32_t> writer;                  // pipe and number of the instruction that wrote last
    std::array<std::vector<uint32_t>, PIPES> readers;  // number of the last instruction of each pipe that read
};

enum class CoreKind : uint8_t { Cube, Vector, Joint };

struct Flag {
    bool set = false;
    int line = 0;
    Clock clock{};
};

enum class Wait : uint8_t { Nothing, Room, Flag, Idle, Cross, Done };

struct Core {
    CoreKind kind = CoreKind::Joint;
    int64_t block = 0, index = 0, sub = 0;  // index: what GetBlockIdx says
    uint32_t number = 0;                    // of all cores of a launch, from 1
    Memory mem[MEMS];
    std::array<std::deque<Record>, PIPES> queue;
    std::array<std::array<std::array<Flag, IDS>, PIPES>, PIPES> flags;
    std::array<Clock, PIPES> clock{};
    Clock issued{};
    std::array<std::vector<int>, PIPES> lines;  // line of each instruction, by its number
    Clock scalar_seen{};                        // of each pipe, which state of the scalar unit's knowledge it was told
    uint32_t scalar_version = 0;
    std::vector<uint8_t> unit_ready;            // of each 512 bytes of L0C, whether Mmad has finished it for Fixpipe
    Clock unit_made{}, unit_drained{};
    std::array<int, CROSS_IDS> cross{};
    std::array<std::array<std::array<int, CROSS_IDS>, 3>, 3> cross_from{};  // [mode][who of the group][id]
    uint32_t ub_top = 0;                        // the highest byte of UB that was touched
    const char* reserved_by = nullptr;

    // registers of the scalar unit
    uint64_t mask_low = ~0ull, mask_high = ~0ull;
    bool counter = false, atomic = false, pad_set = false;
    Type atomic_type = F32;
    uint64_t deq = 0, pad = 0;
    int64_t fmatrix[6] = {}, load_pad = 0;
    Place scales;
    int64_t nz2nd[3] = {1, 0, 0};
    uint64_t reserve[MEMS] = {};
    int by_address = 0;  // line of the first tensor that is made by address, after which some calls are none
    std::string framework;  // a call that needs the framework's buffers, once there was one

    // the scalar code
    ucontext_t context;
    std::unique_ptr<char, void (*)(char*)> stack{nullptr, nullptr};
    Wait wait = Wait::Nothing;
    int wait_a = 0, wait_b = 0, wait_line = 0;
    std::array<uint8_t, PIPES> order{};  // pipes in the order in which they are asked
    int reshuffle = 0, patience = 1;     // steps to the next order, and the most of them
};

struct Region {
    uint64_t at, bytes;
};

struct Launch {
    std::vector<std::unique_ptr<Core>> cores;
    std::vector<Region> regions;  // what the arguments of the kernel reach
    std::vector<std::vector<uint64_t>> writers;  // of each 32 bytes of a region: core, pipe and number of what wrote all of them last
    const uint64_t* arguments = nullptr;
    int argument_count = 0;
    void* kernel = nullptr;
    int64_t blocks = 1, ratio = 1;
    Kind kind = Kind::Missing;
    bool races = true;
    std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();
    std::mt19937_64 random;
    Core* core = nullptr;  // whose turn it is
    ucontext_t back;
    std::string fault;
    int64_t executed = 0;
};
extern thread_local Launch* now;

const char* MemName(Mem m);
const char* PipeName(int p);
std::string Where(const Record& r);
[[noreturn]] void Stop(const Record& r, const char* text, ...) __attribute__((format(printf, 2, 3)));

inline int SizeOf(Type t) { return t == I8 || t == U8 ? 1 : t == F16 || t == BF16 || t == I16 || t == U16 ? 2 : t == I64 || t == U64 ? 8
    : 4; }
inline bool IsReal(Type t) { return t == F32 || t == F16 || t == BF16; }

// Checks an access of `bytes` bytes at byte address `at` of the operand's memory, and notes it; returns where the bytes lie.
uint8_t* Reach(Core& core, const Record& r, const Place& place, uint64_t at, uint64_t bytes, bool writes, bool loose = false);
void CheckAlign(const Record& r, const Place& place, uint32_t unit, const char* what);
void ReserveTop(Core& core, const Record& r);

void ExecuteCopy(Core& core, const Record& r);
void ExecuteCube(Core& core, const Record& r);
void ExecuteVector(Core& core, const Record& r);

// reals and whole numbers in runs
void LoadReals(const uint8_t* from, Type type, int n, float* out);
void StoreReals(uint8_t* to, Type type, int n, const float* x);
void AddRun(uint8_t* to, const uint8_t* from, Type type, int n);

}  // namespace standin
