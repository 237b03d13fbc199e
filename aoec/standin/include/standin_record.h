// What a kernel hands to the stand-in's runtime: one record an instruction. Ours; no text of a vendor's header.
#pragma once
#include <cstdint>

namespace standin {

enum Mem : uint8_t { GM, L1, L0A, L0B, L0C, UB, BT, FB, NOWHERE };
enum Type : uint8_t { F32, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64 };
enum Pipe : uint8_t { S, V, M, MTE1, MTE2, MTE3, FIX, PIPES, EVERY = PIPES };

enum class Op : uint8_t {
    SetFlag, WaitFlag, Barrier, CrossSet, Know,
    Bursts, Nd2Nz, Load2D, Load2DTurned, Load3D, Mmad, Fixpipe, Drain,
    Binary, Unary, Scalar, Cast, AddReluCast, Compare, CompareScalar, Select, Duplicate, Copy, Brcb, Turn, GatherMask, Gather, Reduce
};
enum class Word : uint8_t {
    Add, Sub, Mul, Div, Max, Min, AddRelu, And, Or,
    Exp, Ln, Sqrt, Rsqrt, Reciprocal, Abs, Relu, Not,
    Adds, Muls, Maxs, Mins, ShiftLeft, ShiftRight,
    Sum, Greatest, Least
};

// An operand: where it begins, and the bytes [low, high) that it may reach. For GM these are addresses; high 0 means not said.
struct Place {
    Mem mem = NOWHERE;
    Type type = U8;
    uint64_t at = 0, low = 0, high = 0;
};

struct Record {
    Op op;
    Pipe pipe;
    Word word = Word::Add;
    bool atomic = false;
    Type atomic_type = F32;
    int line = 0;
    const char* name = "";
    Place dst, a, b, c;
    int64_t n[24] = {};       // the fields, in an order of the instruction's own
    uint64_t mask[2] = {0, 0};  // lanes of each repeat that take part
    int64_t count = -1;       // in counter mode: lanes of all repeats together
    uint64_t bits = 0;        // a scalar operand, in the type of its instruction
    uint32_t list[32] = {};   // addresses of TransDataTo5HD
};

struct Line {  // of the kernel, where a call stands
    int number;
    explicit Line(int n = __builtin_LINE()) : number(n) {}
};

enum class Kind : int32_t { Missing, AivOnly, AicOnly, MixAiv10, MixAic10, MixAic11, MixAic12, AiCore, MixVectorCore };

// ---- the runtime's side, which the calls of kernel_operator.h use
[[noreturn]] void Fail(int line, const char* name, const char* text, ...) __attribute__((format(printf, 3, 4)));
void Put(Record& record);                      // issues an instruction to its pipe; waits while the pipe's queue is full
void SetFlag(Pipe from, Pipe to, int id, int line);
void WaitFlag(Pipe from, Pipe to, int id, int line);
void Barrier(Pipe pipe, int line);
void CrossSet(int mode, Pipe pipe, int id, int line);
void CrossWait(int id, int line);
uint64_t ReadScalar(const Place& place, int size, int line);
void WriteScalar(const Place& place, int size, uint64_t bits, int line);
void SetMask(uint64_t high, uint64_t low);
void SetCounter(bool on);
void ApplyMask(Record& record);                // the mask that SetMask and SetCounter left
void SetAtomic(bool on, Type type);
void SetDeqScale(uint64_t bits);
void SetPad(uint64_t bits);
void SetLoad3D(int what, const int64_t* values);
void SetNz2Nd(int64_t count, int64_t from, int64_t to);
void SetScales(const Place& place);
int64_t BlockIndex();
int64_t BlockCount();
int64_t SubBlockIndex();
int64_t TaskRatio();
bool IsCube();
bool IsVector();
void UseAddresses(int line);                    // tensors by address: some calls need the framework's buffers instead
uint64_t Reserve(Mem mem, uint64_t bytes, int line);  // the TBuf spelling: room behind what was given before
const char* TypeName(Type type);

}  // namespace standin
