// The scheduler: scalar code issues instructions to pipes; pipes of all cores run in any order that flags and barriers allow, by a seed.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "machine.hpp"

namespace standin {

thread_local Launch* now = nullptr;

static constexpr uint64_t KB = 1024;
static constexpr size_t STACK_BYTES = 256 * KB, GUARD_BYTES = 64 * KB;

// ---------------------------------------------------------------- cores

static void MakeMemory(Core& core, Mem mem, uint64_t bytes) {
    Memory& m = core.mem[mem];
    m.data.resize(bytes);
    m.unit = mem == UB ? 2 : 32;
    m.writer.assign(bytes / m.unit, 0);
    const bool random = now->random() % 4 == 0;
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t garbage = random ? now->random() : ~0ull;  // else NaN in every real
        std::memcpy(m.data.data() + i, &garbage, 8);
    }
}

static std::unique_ptr<Core> MakeCore(CoreKind kind, int64_t block, int64_t index, int64_t sub) {
    auto made = std::make_unique<Core>();
    Core& core = *made;
    core.kind = kind, core.block = block, core.index = index, core.sub = sub;
    core.number = static_cast<uint32_t>(1 + block * 3 + (kind == CoreKind::Cube ? 0 : 1 + sub));
    if (kind != CoreKind::Vector) {
        MakeMemory(core, L1, (A2 ? 512 : 1024) * KB);
        MakeMemory(core, L0A, 64 * KB), MakeMemory(core, L0B, 64 * KB), MakeMemory(core, L0C, (A2 ? 128 : 256) * KB);
        if (A2) MakeMemory(core, BT, KB), MakeMemory(core, FB, 7 * KB);
    }
    if (kind != CoreKind::Cube) MakeMemory(core, UB, (A2 ? 192 : 256) * KB);
    core.unit_ready.assign(core.mem[L0C].data.size() / 512, 0);
    std::iota(core.order.begin(), core.order.end(), 0);
    std::shuffle(core.order.begin(), core.order.end(), now->random);
    constexpr int patiences[] = {1, 8, 96};
    core.patience = patiences[now->random() % 3];
    return made;
}

static bool HasPipe(const Core& core, int pipe) {
    if (core.kind == CoreKind::Joint) return pipe != FIX;
    if (core.kind == CoreKind::Cube) return pipe != V;
    return pipe == S || pipe == V || pipe == MTE2 || pipe == MTE3;
}

// ---------------------------------------------------------------- what the scalar code calls

static void Know(Core& core, const Clock& more) {
    bool grew = false;
    for (int p = 0; p < PIPES; p++)
        if (more[p] > core.clock[S][p]) core.clock[S][p] = more[p], grew = true;
    if (grew) core.scalar_version++;
}

static void Sleep(Core& core, Wait why, int a, int b, int line) {
    core.wait = why, core.wait_a = a, core.wait_b = b, core.wait_line = line;
    swapcontext(&core.context, &now->back);
}

static void Push(Core& core, const Record& r) {
    while (core.queue[r.pipe].size() >= QUEUE_DEPTH) Sleep(core, Wait::Room, r.pipe, 0, r.line);
    core.queue[r.pipe].push_back(r);
}

// Calls that are in no list of what may be used beside tensors made by address.
static bool NeedsFramework(const Record& r) {
    if (A2) return r.op == Op::Select;
    return P310 && (r.op == Op::Brcb || r.op == Op::Nd2Nz || r.op == Op::Drain);
}
[[noreturn]] static void Mixed(const std::string& name, int line) {
    Fail(line, name.c_str(), "product %d does not list this call beside tensors made by address: take them from a TBuf", STANDIN_PRODUCT);
}
void UseAddresses(int line) {
    Core& core = *now->core;
    if (!core.framework.empty()) Mixed(core.framework, line);
    if (!core.by_address) core.by_address = line ? line : 1;
}

void Put(Record& r) {
    Core& core = *now->core;
    if (NeedsFramework(r)) {
        core.framework = r.name;
        if (core.by_address) Mixed(r.name, r.line);
    }
    if (!HasPipe(core, r.pipe)) Fail(r.line, r.name, "this core has no pipe %s", PipeName(r.pipe));
    r.atomic = core.atomic, r.atomic_type = core.atomic_type;
    if (r.op == Op::Bursts && r.n[4] == 1) {  // what DataCopyPad leaves in the rest of a block
        if (core.pad_set) r.n[4] = 2, r.bits = core.pad;
    }
    if (r.op == Op::Cast) r.bits = core.deq;
    if (r.op == Op::Load3D) {
        if (!r.n[18]) for (int i = 0; i < 2; i++) r.n[i] = core.fmatrix[i];
        if (!r.n[18]) r.n[15] = core.fmatrix[2], r.n[16] = core.fmatrix[3], r.n[13] = core.fmatrix[4], r.n[14] = core.fmatrix[5];
        if (!r.n[19]) r.n[17] = core.load_pad;
    }
    if (r.op == Op::Fixpipe && r.n[13]) {
        r.n[6] = core.nz2nd[0], r.n[7] = core.nz2nd[1], r.n[8] = core.nz2nd[2];
        if (r.n[4] == VREQ8) r.b = core.scales;
    }
    if (core.scalar_seen[r.pipe] != core.scalar_version) {  // what the scalar unit waited for holds for all that it issues later
        Record know{};
        know.op = Op::Know, know.pipe = r.pipe, know.name = "issue", know.line = r.line;
        for (int p = 0; p < PIPES; p++) know.n[p] = core.clock[S][p];
        core.scalar_seen[r.pipe] = core.scalar_version;
        Push(core, know);
    }
    Push(core, r);
}

static void CheckEvent(const Core& core, const char* name, Pipe from, Pipe to, int id, int line) {
    if (from == to || !HasPipe(core, from) || !HasPipe(core, to) || (core.kind == CoreKind::Cube && (from == S || to == S)))
        Fail(line, name, "this core has no event %s_%s", PipeName(from), PipeName(to));
    const int most = A910 ? 3 : 7;
    if (id < 0 || id > most) Fail(line, name, "event id is %d, at most %d on product %d", id, most, STANDIN_PRODUCT);
}

static void RunSet(Core& core, int from, int to, int id, int line) {
    Flag& flag = core.flags[from][to][id];
    if (flag.set) Fail(line, "SetFlag", "%s_%s %d is set a second time; nobody has waited for the first, at line %d", PipeName(from),
        PipeName(to), id, flag.line);
    flag.set = true, flag.line = line, flag.clock = core.clock[from];
    flag.clock[from] = core.issued[from];
}
static void RunWait(Core& core, int from, int to, int id) {
    Flag& flag = core.flags[from][to][id];
    flag.set = false;
    for (int p = 0; p < PIPES; p++) core.clock[to][p] = std::max(core.clock[to][p], flag.clock[p]);
}

void SetFlag(Pipe from, Pipe to, int id, int line) {
    Core& core = *now->core;
    CheckEvent(core, "SetFlag", from, to, id, line);
    if (from == S) return RunSet(core, from, to, id, line);
    Record r{};
    r.op = Op::SetFlag, r.pipe = from, r.name = "SetFlag", r.line = line, r.n[0] = to, r.n[1] = id;
    Put(r);
}
void WaitFlag(Pipe from, Pipe to, int id, int line) {
    Core& core = *now->core;
    CheckEvent(core, "WaitFlag", from, to, id, line);
    if (to == S) {
        while (!core.flags[from][S][id].set) Sleep(core, Wait::Flag, from, id, line);
        const Clock known = core.flags[from][S][id].clock;
        core.flags[from][S][id].set = false;
        return Know(core, known);
    }
    Record r{};
    r.op = Op::WaitFlag, r.pipe = to, r.name = "WaitFlag", r.line = line, r.n[0] = from, r.n[1] = id;
    Put(r);
}
static bool IsIdle(const Core& core) {
    return std::all_of(core.queue.begin(), core.queue.end(), [](const auto& q) { return q.empty(); });
}
void Barrier(Pipe pipe, int line) {
    Core& core = *now->core;
    if (pipe == EVERY) {
        while (!IsIdle(core)) Sleep(core, Wait::Idle, 0, 0, line);
        return Know(core, core.issued);
    }
    Record r{};
    r.op = Op::Barrier, r.pipe = pipe, r.name = "PipeBarrier", r.line = line;
    Put(r);
}
static void CheckCross(const char* name, int id, int line) {
    if (now->kind == Kind::AivOnly || now->kind == Kind::AicOnly) Fail(line, name,
        "a kernel of one kind of cores alone has no flags between cores: its type must be one of KERNEL_TYPE_MIX_...");
    if (id < 0 || id >= CROSS_IDS) Fail(line, name, "flag id is %d, at most %d", id, CROSS_IDS - 1);
}
void CrossSet(int mode, Pipe pipe, int id, int line) {
    CheckCross("CrossCoreSetFlag", id, line);
    Record r{};
    r.op = Op::CrossSet, r.pipe = pipe, r.name = "CrossCoreSetFlag", r.line = line, r.n[0] = mode, r.n[1] = id;
    Put(r);
}
void CrossWait(int id, int line) {
    CheckCross("CrossCoreWaitFlag", id, line);
    Core& core = *now->core;
    while (core.cross[id] == 0) Sleep(core, Wait::Cross, id, 0, line);
    core.cross[id]--;
}

static Record ScalarAccess(Core& core, const char* name, int line) {
    Record r{};
    r.pipe = S, r.name = name, r.line = line;
    core.issued[S]++, core.lines[S].push_back(line);
    return r;
}
uint64_t ReadScalar(const Place& place, int size, int line) {
    Core& core = *now->core;
    Record r = ScalarAccess(core, "GetValue", line);
    if (place.mem != UB && place.mem != GM) Stop(r, "the scalar unit reads UB and GM, not %s", MemName(place.mem));
    uint64_t bits = 0;
    std::memcpy(&bits, Reach(core, r, place, place.at, size, false), size);
    return bits;
}
void WriteScalar(const Place& place, int size, uint64_t bits, int line) {
    Core& core = *now->core;
    Record r = ScalarAccess(core, "SetValue", line);
    if (place.mem != UB && place.mem != GM) Stop(r, "the scalar unit writes UB and GM, not %s", MemName(place.mem));
    std::memcpy(Reach(core, r, place, place.at, size, true), &bits, size);
}

void SetMask(uint64_t high, uint64_t low) { now->core->mask_high = high, now->core->mask_low = low; }
void SetCounter(bool on) { now->core->counter = on; }
void SetAtomic(bool on, Type type) { now->core->atomic = on, now->core->atomic_type = type; }
void SetDeqScale(uint64_t bits) { now->core->deq = bits; }
void SetPad(uint64_t bits) { now->core->pad = bits, now->core->pad_set = true; }
void SetLoad3D(int what, const int64_t* values) {
    if (what) now->core->load_pad = values[0];
    else std::copy(values, values + 6, now->core->fmatrix);
}
void SetNz2Nd(int64_t count, int64_t from, int64_t to) { now->core->nz2nd[0] = count, now->core->nz2nd[1] = from, now->core->nz2nd[2] = to;
    }
void SetScales(const Place& place) { now->core->scales = place; }
int64_t BlockIndex() { return now->core->index; }
int64_t BlockCount() { return now->blocks; }
int64_t SubBlockIndex() { return now->core->sub; }
int64_t TaskRatio() { return now->core->kind == CoreKind::Vector ? now->ratio : 1; }
bool IsCube() { return now->core->kind != CoreKind::Vector; }
bool IsVector() { return now->core->kind != CoreKind::Cube; }
uint64_t Reserve(Mem mem, uint64_t bytes, int line) {
    Core& core = *now->core;
    if (mem == NOWHERE || mem == GM) Fail(line, "InitBuffer", "this position has no memory on a core of this product");
    const uint64_t at = core.reserve[mem], size = core.mem[mem].data.size();
    if (size && at + bytes > size) Fail(line, "InitBuffer", "%llu bytes behind %llu are more than the %llu of %s",
        static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(at), static_cast<unsigned long long>(size), MemName(mem));
    core.reserve[mem] += bytes;
    return at;
}

void ApplyMask(Record& r) {
    Core& core = *now->core;
    const uint64_t lanes = static_cast<uint64_t>(r.n[21]);
    const auto how = r.n[20];
    const bool narrow = r.op != Op::Copy && r.op != Op::Reduce;
    for (int i = 1; narrow && i < 7; i++)
        if (r.n[i] > 255) Fail(r.line, r.name, "a stride is %lld, at most 255", static_cast<long long>(r.n[i]));
    if (how == 3) {  // the form with a count switches to counter mode and back
        r.count = static_cast<int64_t>(r.mask[0]);
        core.counter = false;
    } else {
        if (how == 0) core.mask_low = core.counter ? r.mask[0] : r.mask[0] >= 64 ? ~0ull : (1ull << r.mask[0]) - 1,
                      core.mask_high = core.counter || r.mask[0] <= 64 ? 0 : r.mask[0] >= 128 ? ~0ull : (1ull << (r.mask[0] - 64)) - 1;
        if (how == 1) core.mask_low = r.mask[0], core.mask_high = r.mask[1];
        r.mask[0] = core.mask_low, r.mask[1] = core.mask_high;
        if (core.counter && (r.op == Op::Cast || r.op == Op::Reduce)) Fail(r.line, r.name,
            "what counter mode means for this call is on no page: leave it first");
        if (core.counter && r.op == Op::Copy) r.mask[0] = core.mask_low >= 64 ? ~0ull : (1ull << core.mask_low) - 1,
            r.mask[1] = core.mask_low <= 64 ? 0 : core.mask_low >= 128 ? ~0ull : (1ull << (core.mask_low - 64)) - 1;
        else if (core.counter) r.count = static_cast<int64_t>(core.mask_low);
    }
    if (r.count >= 0) {
        r.n[0] = (r.count + lanes - 1) / lanes;
        return;
    }
    if (lanes <= 64) r.mask[1] = 0;
    if (lanes < 64) r.mask[0] &= (1ull << lanes) - 1;
}

// ---------------------------------------------------------------- pipes


// The blocks of L0C that an Mmad or Fixpipe with a unit flag meets: whether each of them is as `ready` says.
static bool UnitIs(const Core& core, const Record& r, bool ready) {
    const bool mmad = r.op == Op::Mmad;
    const uint64_t at = (mmad ? r.dst : r.a).at;
    const int64_t m = mmad ? r.n[0] : r.n[1], n = mmad ? r.n[1] : r.n[0];
    const int64_t rows = mmad ? (m + 15) / 16 * 16 : r.n[2];
    for (int64_t j = 0; j < (n + 15) / 16; j++)
        for (uint64_t b = (at + j * rows * 64) / 512; b * 512 < at + j * rows * 64 + (m + 15) / 16 * 1024; b++)
            if (b < core.unit_ready.size() && core.unit_ready[b] != static_cast<uint8_t>(ready)) return false;
    return true;
}
static void SetUnit(Core& core, const Record& r, bool ready) {
    const bool mmad = r.op == Op::Mmad;
    const uint64_t at = (mmad ? r.dst : r.a).at;
    const int64_t m = mmad ? r.n[0] : r.n[1], n = mmad ? r.n[1] : r.n[0];
    const int64_t rows = mmad ? (m + 15) / 16 * 16 : r.n[2];
    for (int64_t j = 0; j < (n + 15) / 16; j++)
        for (uint64_t b = (at + j * rows * 64) / 512; b * 512 < at + j * rows * 64 + (m + 15) / 16 * 1024; b++)
            if (b < core.unit_ready.size()) core.unit_ready[b] = ready;
}
static int UnitOf(const Record& r) { return static_cast<int>(r.op == Op::Mmad ? r.n[4] : r.op == Op::Fixpipe ? r.n[10] : 0); }
static bool IsEmpty(const Record& r) { return r.op == Op::Mmad ? !(r.n[0] && r.n[1] && r.n[2]) : !(r.n[0] && r.n[1]); }

static bool CanRun(const Core& core, const Record& r) {
    if (r.op == Op::WaitFlag) return core.flags[r.n[0]][r.pipe][r.n[1]].set;
    if (UnitOf(r) && !IsEmpty(r)) return UnitIs(core, r, r.op == Op::Fixpipe);
    return true;
}

static void RunCrossSet(Core& core, const Record& r) {
    const int mode = static_cast<int>(r.n[0]), id = static_cast<int>(r.n[1]);
    const auto give = [&](Core& to) {
        if (++to.cross[id] > CROSS_MOST) Stop(r, "flag %d of block %lld counts beyond %d", id, static_cast<long long>(to.block),
            CROSS_MOST);
    };
    if (mode == 2 && core.kind == CoreKind::Cube) {
        for (auto& other : now->cores)
            if (other->kind == CoreKind::Vector && other->block == core.block) give(*other);
        return;
    }
    // all of a kind, or all vector cores of a group: the flag is given once each of them has set it
    std::vector<Core*> who;
    Core* to = nullptr;
    for (auto& other : now->cores) {
        if (other->kind == core.kind && (mode == 0 || other->block == core.block)) who.push_back(other.get());
        if (mode == 2 && other->kind == CoreKind::Cube && other->block == core.block) to = other.get();
    }
    int& own = core.cross_from[mode][0][id];
    if (++own > CROSS_MOST) Stop(r, "flag %d counts beyond %d", id, CROSS_MOST);
    if (!std::all_of(who.begin(), who.end(), [&](Core* c) { return c->cross_from[mode][0][id] > 0; })) return;
    for (Core* c : who) c->cross_from[mode][0][id]--;
    if (mode != 2) for (Core* c : who) give(*c);
    else if (to) give(*to);
}

static void Execute(Core& core, const Record& r) {
    Clock& known = core.clock[r.pipe];
    switch (r.op) {
        case Op::SetFlag: return RunSet(core, r.pipe, static_cast<int>(r.n[0]), static_cast<int>(r.n[1]), r.line);
        case Op::WaitFlag: return RunWait(core, static_cast<int>(r.n[0]), r.pipe, static_cast<int>(r.n[1]));
        case Op::Barrier: known[r.pipe] = core.issued[r.pipe]; return;
        case Op::CrossSet: return RunCrossSet(core, r);
        case Op::Know:
            for (int p = 0; p < PIPES; p++) known[p] = std::max(known[p], static_cast<uint32_t>(r.n[p]));
            return;
        default: break;
    }
    core.issued[r.pipe]++, core.lines[r.pipe].push_back(r.line);
    now->executed++;
    const int unit = IsEmpty(r) ? 0 : UnitOf(r);
    if (unit) {
        const Clock& other = r.op == Op::Mmad ? core.unit_drained : core.unit_made;
        for (int p = 0; p < PIPES; p++) known[p] = std::max(known[p], other[p]);
    }
    switch (r.op) {
        case Op::Bursts: case Op::Nd2Nz: case Op::Load2D: case Op::Load3D: ExecuteCopy(core, r); break;
        case Op::Mmad: case Op::Fixpipe: case Op::Drain: ExecuteCube(core, r); break;
        default: ExecuteVector(core, r);
    }
    if (unit == 3) {
        SetUnit(core, r, r.op == Op::Mmad);
        Clock& made = r.op == Op::Mmad ? core.unit_made : core.unit_drained;
        made = known, made[r.pipe] = core.issued[r.pipe];
    }
}

static bool ScalarCanRun(const Core& core) {
    switch (core.wait) {
        case Wait::Nothing: return true;
        case Wait::Room: return core.queue[core.wait_a].size() < QUEUE_DEPTH;
        case Wait::Flag: return core.flags[core.wait_a][S][core.wait_b].set;
        case Wait::Idle: return IsIdle(core);
        case Wait::Cross: return core.cross[core.wait_a] > 0;
        default: return false;
    }
}

// One step of a core: the scalar code as far as it goes, or an instruction of a pipe; false where nothing can go on.
static bool Step(Core& core) {
    if (core.reshuffle-- <= 0) {
        std::shuffle(core.order.begin(), core.order.end(), now->random);
        core.reshuffle = static_cast<int>(now->random() % core.patience);
    }
    for (const int p : core.order) {
        if (p == S) {
            if (!ScalarCanRun(core)) continue;
            core.wait = Wait::Nothing;
            swapcontext(&now->back, &core.context);
            if (!now->fault.empty()) throw Fault{now->fault};
            return true;
        }
        auto& queue = core.queue[p];
        if (queue.empty() || !CanRun(core, queue.front())) continue;
        Execute(core, queue.front());
        queue.pop_front();
        return true;
    }
    return false;
}

static bool IsDone(const Core& core) { return core.wait == Wait::Done && IsIdle(core); }

static std::string Stuck(Core& core) {
    now->core = nullptr;
    std::string who = "block " + std::to_string(core.block) + (now->kind >= Kind::MixAiv10 && now->kind <= Kind::MixAic12
        ? core.kind == CoreKind::Cube ? ", cube core" : ", vector core" : "") + ": ";
    std::string out;
    const auto say = [&](const std::string& text, int line) {
        out += (out.empty() ? "" : "; ") + text + " at line " + std::to_string(line);
    };
    for (int p = 1; p < PIPES; p++) {
        if (core.queue[p].empty()) continue;
        const Record& r = core.queue[p].front();
        const std::string pipe = PipeName(p);
        const std::string event = r.op == Op::WaitFlag ? PipeName(static_cast<int>(r.n[0])) + ("_" + pipe) + " " + std::to_string(r.n[1])
            : "";
        say(pipe + " waits for " + (event.empty() ? "the unit flag" : event), r.line);
    }
    const std::string scalar = "the scalar unit waits for ";
    if (core.wait == Wait::Flag) say(scalar + PipeName(core.wait_a) + "_S " + std::to_string(core.wait_b), core.wait_line);
    if (core.wait == Wait::Cross) say("the core waits for flag " + std::to_string(core.wait_a) + " between cores", core.wait_line);
    if (core.wait == Wait::Room) say(scalar + "room in the queue of " + PipeName(core.wait_a), core.wait_line);
    return who + out;
}

static void CheckEnd(Core& core) {
    now->core = &core;
    for (int from = 0; from < PIPES; from++)
        for (int to = 0; to < PIPES; to++)
            for (int id = 0; id < IDS; id++)
                if (const Flag& flag = core.flags[from][to][id]; flag.set)
                    Fail(flag.line, "SetFlag", "%s_%s %d is left set when the kernel ends", PipeName(from), PipeName(to), id);
    for (int id = 0; id < CROSS_IDS; id++) {
        bool left = core.cross[id] > 0;
        for (const auto& mode : core.cross_from) left |= mode[0][id] > 0;
        if (left) Fail(0, "CrossCoreSetFlag", "flag %d between cores is left set when the kernel ends", id);
    }
    for (size_t b = 0; b < core.unit_ready.size(); b++)
        if (core.unit_ready[b]) Fail(0, "Mmad", "the unit flag of bytes %zu to %zu of L0C is left set: no Fixpipe took them", b * 512,
            b * 512 + 512);
}

// ---------------------------------------------------------------- launches

template <size_t... I> static void CallWith(void* kernel, const uint64_t* a, std::index_sequence<I...>) {
    using Function = void (*)(decltype(static_cast<void>(I), uint64_t{})...);
    reinterpret_cast<Function>(kernel)(a[I]...);
}

static void Enter() {
    Launch& launch = *now;
    Core& core = *launch.core;
    try {
        uint64_t a[64] = {};
        std::copy(launch.arguments, launch.arguments + launch.argument_count, a);
        if (launch.argument_count <= 6) CallWith(launch.kernel, a, std::make_index_sequence<6>());
        else if (launch.argument_count <= 16) CallWith(launch.kernel, a, std::make_index_sequence<16>());
        else CallWith(launch.kernel, a, std::make_index_sequence<64>());
    } catch (const Fault& fault) {
        launch.fault = fault.text;
    }
    core.wait = Wait::Done;
    swapcontext(&core.context, &launch.back);
}

static void Start(Core& core) {
    void* room = mmap(nullptr, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) throw Fault{"launch: no memory for the stack of a core"};
    mprotect(room, GUARD_BYTES, PROT_NONE);  // whoever goes beyond his stack ends here
    core.stack = {static_cast<char*>(room), [](char* p) { munmap(p, GUARD_BYTES + STACK_BYTES); }};
    getcontext(&core.context);
    core.context.uc_stack.ss_sp = core.stack.get() + GUARD_BYTES;
    core.context.uc_stack.ss_size = STACK_BYTES;
    core.context.uc_link = nullptr;
    makecontext(&core.context, Enter, 0);
}

extern "C" {
extern const int32_t __start_standin_kind[] __attribute__((weak, visibility("hidden")));
extern const int32_t __stop_standin_kind[] __attribute__((weak, visibility("hidden")));
#define STANDIN_SECTION(NAME) \
    extern const char __start_standin_##NAME[] __attribute__((weak, visibility("hidden"))); \
    extern const char __stop_standin_##NAME[] __attribute__((weak, visibility("hidden")));
STANDIN_SECTION(vector)
STANDIN_SECTION(cube)
STANDIN_SECTION(mix_1_0)
STANDIN_SECTION(mix_0_1)
STANDIN_SECTION(mix_1_1)
STANDIN_SECTION(mix_1_2)
}

static Kind KindOf(const void* kernel) {
    const char* at = static_cast<const char*>(kernel);
#define STANDIN_IN(NAME, KIND) \
    if (__start_standin_##NAME && at >= __start_standin_##NAME && at < __stop_standin_##NAME) return Kind::KIND;
    STANDIN_IN(vector, AivOnly)
    STANDIN_IN(cube, AicOnly)
    STANDIN_IN(mix_1_0, MixAic10)
    STANDIN_IN(mix_0_1, MixAiv10)
    STANDIN_IN(mix_1_1, MixAic11)
    STANDIN_IN(mix_1_2, MixAic12)
    Kind kind = A2 ? Kind::Missing : Kind::AiCore;
    for (const int32_t* k = __start_standin_kind; k && k < __stop_standin_kind; k++) {
        if (k != __start_standin_kind &&
            *k != static_cast<int32_t>(kind)) throw Fault{"launch: the file names several core types; a source holds one kernel"};
        kind = static_cast<Kind>(*k);
    }
    return kind;
}

static void MakeCores(Launch& launch, int64_t first, int64_t last) {
    const Kind kind = launch.kind;
    const bool joint = kind == Kind::AiCore;
    if (kind == Kind::Missing)
        throw Fault{"launch: the kernel does not say its core type (KERNEL_TASK_TYPE_DEFAULT or __vector__, __cube__, __mix__)"};
    if (kind == Kind::MixVectorCore || joint == A2)
        throw Fault{"launch: product " + std::to_string(STANDIN_PRODUCT) + " has no cores of the kernel's type, or the stand-in has not"};
    const bool cubes = kind == Kind::AicOnly || kind == Kind::MixAic10 || kind == Kind::MixAic11 || kind == Kind::MixAic12;
    launch.ratio = kind == Kind::MixAic12 ? 2 : 1;
    const int64_t vectors = kind == Kind::MixAic12 ? 2 : kind == Kind::AivOnly || kind == Kind::MixAiv10 || kind == Kind::MixAic11 ? 1 : 0;
    launch.cores.clear();
    for (int64_t b = first; b < last; b++) {
        if (joint) launch.cores.push_back(MakeCore(CoreKind::Joint, b, b, 0));
        if (cubes) launch.cores.push_back(MakeCore(CoreKind::Cube, b, b, 0));
        for (int64_t v = 0; v < vectors; v++) launch.cores.push_back(MakeCore(CoreKind::Vector, b, b * vectors + v, v));
    }
}

static void RunBlocks(Launch& launch, int64_t first, int64_t last) {
    MakeCores(launch, first, last);
    std::vector<Core*> left;
    for (auto& core : launch.cores) Start(*core), left.push_back(core.get());
    while (!left.empty()) {
        if (std::chrono::steady_clock::now() > launch.until) throw Fault{"launch: the kernel ran longer than its limit", 3};
        std::shuffle(left.begin(), left.end(), launch.random);
        bool moved = false;
        for (Core* core : left) {
            launch.core = core;
            for (int steps = 1 + static_cast<int>(launch.random() % 512); steps && Step(*core); steps--) moved = true;
        }
        const size_t before = left.size();
        left.erase(std::remove_if(left.begin(), left.end(), [](Core* c) { return IsDone(*c); }), left.end());
        if (!moved && left.size() == before) throw Fault{"deadlock: " + Stuck(*left.front())};
    }
    for (auto& core : launch.cores) CheckEnd(*core);
    launch.core = nullptr;
}

static void Run(Launch& launch) {
    if (launch.blocks < 1 ||
        launch.blocks > 65535) throw Fault{"launch: the number of blocks is " + std::to_string(launch.blocks) + ", from 1 to 65535"};
    launch.kind = KindOf(launch.kernel);
    // blocks that cannot meet run some at a time, in an order of the seed's, so that the memories of many need not be held at once
    const bool meet = launch.kind >= Kind::MixAiv10 && launch.kind <= Kind::MixAic12;
    const int64_t most = meet ? launch.blocks : 32;
    std::vector<int64_t> starts;
    for (int64_t b = 0; b < launch.blocks; b += most) starts.push_back(b);
    std::shuffle(starts.begin(), starts.end(), launch.random);
    for (const int64_t b : starts) RunBlocks(launch, b, std::min(launch.blocks, b + most));
}

}  // namespace standin

// Runs a kernel on `blocks` blocks; 0, or 1 with a sentence in `message`, or 3 where it ran longer than `limit_us` (0: no limit).
// flags: 1 lets accesses meet that no flag orders.
extern "C" __attribute__((visibility("default"))) int standin_launch(void* kernel, const uint64_t* arguments, int32_t argument_count,
                                                                     const standin::Region* regions, int32_t region_count, int64_t blocks,
                                                                     uint64_t seed, int32_t flags, char* message, uint64_t message_bytes,
                                                                         int64_t* executed,
    int64_t limit_us) {
    standin::Launch launch;
    standin::Launch* before = standin::now;
    standin::now = &launch;
    launch.kernel = kernel, launch.arguments = arguments, launch.argument_count = argument_count, launch.blocks = blocks;
    launch.regions.assign(regions, regions + region_count);
    launch.writers.resize(launch.regions.size());
    launch.races = !(flags & 1);
    if (limit_us > 0) launch.until = std::chrono::steady_clock::now() + std::chrono::microseconds(limit_us);
    launch.random.seed(seed * 0x9E3779B97F4A7C15ull + 1);
    int result = 0;
    try {
        if (argument_count > 64) throw standin::Fault{"launch: more than 64 arguments"};
        standin::Run(launch);
    } catch (const standin::Fault& fault) {
        std::snprintf(message, message_bytes, "%s", fault.text.c_str());
        result = fault.kind;
    } catch (const std::exception& error) {
        std::snprintf(message, message_bytes, "launch: %s", error.what());
        result = 2;
    }
    if (executed) *executed = launch.executed;
    standin::now = before;
    return result;
}
extern "C" __attribute__((visibility("default"))) int32_t standin_product() { return STANDIN_PRODUCT; }
// The core type that a kernel says, by the order of KERNEL_TYPE_...; 0 where it says none.
extern "C" __attribute__((visibility("default"))) int32_t standin_kind(const void* kernel) {
    try {
        return static_cast<int32_t>(standin::KindOf(kernel));
    } catch (const standin::Fault&) {
        return 0;
    }
}
