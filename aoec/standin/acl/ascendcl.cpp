// A stand-in for libascendcl: the functions that a launcher needs, with the published signatures and codes, on memory of this process.
// STANDIN_ACL is 81, 85 or 91: what a release lacks is not exported. Ours; no text of a vendor's header. It never drove an NPU.
//
// A pointer to device memory has a bit that no address of the host has, so that only copies and kernels reach what it names. Work on a
// stream is done when somebody waits for it; a failed task shows at that wait. AOEC_STANDIN_FAULT injects faults: NAME=CODE[@N] makes the
// Nth call of a function answer a code (every call without @N); launch=KIND[@N] makes a launch hang (until its limit), be deaf (to its limit),
// never (return), fault, lose (the device), slow, wrong, or crash (the process). AOEC_STANDIN_DEVICES, AOEC_STANDIN_SOC and AOEC_STANDIN_SEED say what is there, and in which order
// pipes run; AOEC_STANDIN_INTERVAL is the interval of time limits in us.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#ifndef STANDIN_ACL
#define STANDIN_ACL 91
#endif
#define API extern "C" __attribute__((visibility("default")))

namespace {

using Error = int32_t;
enum : Error {
    OK = 0, INVALID = 100000, NOT_STARTED = 100001, STARTED = 100002, PARAMETER = 107000, NO_DEVICE = 107001, NO_CONTEXT = 107002,
        WRONG_CONTEXT = 107003,
    NOT_RECORDED = 107006, REVERSED = 107007, HANDLE = 107017, NO_FUNCTION = 107042, ABORTED = 107023, FILE_OPEN = 107009,
        NO_MEMORY = 207001,
    LIMIT = 207012, LOST = 507010, HUNG = 507014, EXCEPTION = 507015, LOOKUP = 507027, WAITED = 507046, DRIVER = 507899
};
constexpr uint64_t DEVICE = 1ull << 62;  // marks device memory
constexpr size_t MOST_PARAMETERS = 128, MOST_BYTES = 65536;
constexpr uint32_t MAGIC_OPTION = 2;

struct Block { std::unique_ptr<uint8_t[]> bytes; uint8_t* at; size_t size; };
struct Region { uint64_t at, bytes; };
using Launch = int (*)(void*, const uint64_t*, int32_t, const Region*, int32_t, int64_t, uint64_t, int32_t, char*, uint64_t, int64_t*,
    int64_t);
struct Context { int32_t device; };
struct Binary { void* library; };
struct Function { void* entry; Launch launch; int32_t kind; };
struct Arguments { Function* function = nullptr; std::vector<uint8_t> bytes; size_t count = 0; bool whole = false; };
struct Event { bool recorded = false; std::chrono::steady_clock::time_point at; };
struct Stream { Context* context; std::vector<std::function<Error()>> tasks; bool aborted = false; };
struct DataBinary { const void* data; size_t size; };

std::mutex guard;
bool started = false, lost = false;
std::map<uint64_t, Block> blocks;  // by address
std::vector<std::unique_ptr<Context>> contexts;
std::vector<std::unique_ptr<Stream>> streams;
std::vector<std::unique_ptr<Event>> events;
std::vector<std::unique_ptr<Binary>> binaries;
std::vector<std::unique_ptr<Function>> functions;
std::vector<std::unique_ptr<DataBinary>> images;
thread_local Context* current = nullptr;
thread_local std::string recent;
thread_local Arguments arguments;  // one a thread: an Init throws away what another left
uint64_t limit_us = 0;             // of a kernel; 0 is none
bool stops = false;
std::map<std::string, int> calls;

Error Say(Error code, const char* text, ...) {
    char buffer[4096];
    va_list values;
    va_start(values, text);
    std::vsnprintf(buffer, sizeof buffer, text, values);
    va_end(values);
    recent = std::string(code == EXCEPTION || code == HUNG ? "EZ9999: "
        : "EE1001: ") + buffer + " [stand-in, " + std::to_string(code) + "]";
    return code;
}

// What AOEC_STANDIN_FAULT says of the call of that name: empty where nothing, or where it is another call's turn.
std::string Injected(const char* name) {
    const int turn = ++calls[name];
    const char* all = std::getenv("AOEC_STANDIN_FAULT");
    std::string text = all ? all : "";
    for (size_t from = 0; from < text.size();) {
        const size_t stop = std::min(text.find(',', from), text.size());
        const std::string one = text.substr(from, stop - from);
        from = stop + 1;
        const size_t equal = one.find('='), at = one.find('@');
        if (equal == std::string::npos || one.substr(0, equal) != name) continue;
        if (at != std::string::npos && std::atoi(one.c_str() + at + 1) != turn) continue;
        return one.substr(equal + 1, at == std::string::npos ? at : at - equal - 1);
    }
    return "";
}
Error Begin(const char* name, bool needs_context = true) {
    const std::string injected = Injected(name);
    if (!injected.empty()) return Say(std::atoi(injected.c_str()), "%s fails as it was told to", name);
    if (!started) return Say(NOT_STARTED, "%s before aclInit", name);
    if (lost) return Say(LOST, "%s: the device has lost its heartbeat", name);
    if (needs_context && !current) return Say(NO_CONTEXT, "%s: this thread has no context; call aclrtSetDevice", name);
    return OK;
}
#define BEGIN(NAME, ...) \
    std::unique_lock<std::mutex> lock(guard); \
    if (const Error begun = Begin(NAME, ##__VA_ARGS__)) return begun;

// Devices that a process sees: those of ASCEND_RT_VISIBLE_DEVICES that there are, up to the first that is none; -1 without a driver.
int DeviceCount() {
    const char *said = std::getenv("AOEC_STANDIN_DEVICES"), *visible = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
    const int there = said ? std::atoi(said) : 1;
    if (!visible || !*visible || there < 0) return there;
    int count = 0;
    for (const char* at = visible; *at && std::atoi(at) < there; at++) {
        count++;
        if (!(at = std::strchr(at, ','))) break;
    }
    return count;
}
const char* Soc() {
    const char* said = std::getenv("AOEC_STANDIN_SOC");
    return said ? said : "Ascend910B3";
}
int ProductOf(const std::string& soc) {
    if (soc.rfind("Ascend310P", 0) == 0) return 2002;
    return soc == "Ascend910A" || soc == "Ascend910B" || soc.rfind("Ascend910Pr", 0) == 0 ? 1001 : 2201;
}
template <typename T> bool Knows(const std::vector<std::unique_ptr<T>>& all, const void* one) {
    return std::any_of(all.begin(), all.end(), [&](const auto& p) { return p.get() == one; });
}
template <typename T> void Forget(std::vector<std::unique_ptr<T>>& all, const void* one) {
    all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& p) { return p.get() == one; }), all.end());
}
// The host's place of `bytes` bytes of device memory; null where they are not all in one allocation.
uint8_t* OnDevice(const void* pointer, size_t bytes) {
    const uint64_t at = reinterpret_cast<uint64_t>(pointer);
    if (!(at & DEVICE)) return nullptr;
    const uint64_t real = at ^ DEVICE;
    auto next = blocks.upper_bound(real);
    if (next == blocks.begin()) return nullptr;
    const auto& [start, block] = *--next;
    return real + bytes <= start + block.size ? reinterpret_cast<uint8_t*>(real) : nullptr;
}
Error CopyNow(void* to, size_t most, const void* from, size_t count, int32_t kind) {
    if (count > most) return Say(PARAMETER, "aclrtMemcpy: %zu bytes into %zu", count, most);
    if (kind < 0 || kind > 3) return Say(PARAMETER, "aclrtMemcpy: kind is %d", kind);
    const bool to_device = kind == 1 || kind == 3, from_device = kind >= 2;
    void* d = to_device ? OnDevice(to, count) : to;
    const void* s = from_device ? OnDevice(from, count) : from;
    if (!d || !s || (!to_device && reinterpret_cast<uint64_t>(to) & DEVICE) || (!from_device && reinterpret_cast<uint64_t>(from) & DEVICE))
        return Say(PARAMETER, "aclrtMemcpy: an address is none of the memory that kind %d names", kind);
    std::memmove(d, s, count);
    return OK;
}
Error FillNow(void* to, size_t most, int32_t value, size_t count) {
    uint8_t* d = OnDevice(to, count);
    if (count > most || !d) return Say(PARAMETER, "aclrtMemset: %zu bytes into %zu, or no device memory", count, most);
    std::memset(d, value, count);
    return OK;
}

// Waits for what never ends: until the kernel's limit or the waiter's, whichever comes first.
Error Hang(int32_t wait_ms, uint64_t limit) {
    const uint64_t wait_us = wait_ms < 0 ? UINT64_MAX : static_cast<uint64_t>(wait_ms) * 1000, until = std::min(wait_us, limit
        ? limit : UINT64_MAX);
    if (until == UINT64_MAX) for (;;) pause();
    std::this_thread::sleep_for(std::chrono::microseconds(until));
    return limit && limit <= wait_us ? Say(HUNG, "aicore timeout: a kernel ran longer than %llu us",
        static_cast<unsigned long long>(limit))
                                           : Say(WAITED, "the stream did not end in %d ms", wait_ms);
}
thread_local int32_t waiting_ms = -1;

Error RunKernel(const Function& function, std::vector<uint64_t> words, uint32_t count, uint64_t own_us) {
    const uint64_t limit = own_us ? own_us : limit_us;
    const std::string kind = Injected("launch");
    if (kind == "hang") return Hang(waiting_ms, limit);
    if (kind == "deaf") return Hang(waiting_ms, 0);
    if (kind == "never") for (;;) pause();
    if (kind == "crash") std::raise(SIGSEGV);
    if (kind == "fault") return Say(EXCEPTION, "aicore execution is abnormal, as it was told to be");
    if (kind == "lose") return lost = true, Say(LOST, "the device has lost its heartbeat");
    if (kind == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::vector<Region> regions;
    uint64_t last = 0;  // where the last argument lies: by custom a result
    for (uint64_t& w : words) {
        if (!(w & DEVICE)) continue;
        auto next = blocks.upper_bound(w ^ DEVICE);
        if (next == blocks.begin()) continue;
        const auto& [start, block] = *--next;
        if ((w ^ DEVICE) > start + block.size) continue;
        last = w ^= DEVICE;
        regions.push_back({start, block.size});
    }
    const char* seed = std::getenv("AOEC_STANDIN_SEED");
    char message[2048];
    const int result = function.launch(function.entry, words.data(), static_cast<int32_t>(words.size()), regions.data(),
        static_cast<int32_t>(regions.size()), count, seed ? std::strtoull(seed, nullptr, 10) : 0, 0, message, sizeof message, nullptr,
        static_cast<int64_t>(limit));
    if (result == 3) return Say(HUNG, "aicore timeout: %s", message);
    if (result) return Say(EXCEPTION, "aicore execution is abnormal: %s", message);
    if (kind == "wrong" && !regions.empty()) {
        auto* bytes = reinterpret_cast<uint8_t*>(last);
        for (size_t i = 0; i < std::min<uint64_t>(64, regions.back().at + regions.back().bytes - last); i++) bytes[i] ^= 0x5A;
    }
    return OK;
}
Error Enqueue(void* stream, std::function<Error()> task) {
    if (!Knows(streams, stream)) return Say(HANDLE, "no such stream");
    Stream& s = *static_cast<Stream*>(stream);
    if (s.context != current) return Say(WRONG_CONTEXT, "the stream is of another context");
    s.tasks.push_back(std::move(task));
    return OK;
}
Error Finish(Stream& s, int32_t ms) {
    Error first = OK;
    waiting_ms = ms;
    std::vector<std::function<Error()>> tasks;
    tasks.swap(s.tasks);
    if (s.aborted) return s.aborted = false, Say(ABORTED, "the stream was aborted");
    for (auto& task : tasks) {
        const Error e = task();
        if (e && !first) first = e;
        if (e && (stops || e == WAITED || e == LOST)) break;  // else the next task is carried on with
    }
    return first;
}
// Whether an argument stands before the user's: of kernels of both kinds of core on products that have them apart.
bool HasSync(const Function& f) { return f.kind >= 3 && f.kind <= 6; }
uint64_t SyncAddress() { return DEVICE | 0x51C0; }

Error Start(void* function, uint32_t count, void* stream, const void* data, size_t bytes, bool packed_by_hand, uint64_t own_us = 0) {
    if (!Knows(functions, function)) return Say(HANDLE, "no such function");
    if (count < 1 || count > 65535) return Say(PARAMETER, "the number of blocks is %u, from 1 to 65535", count);
    if (bytes % 8) return Say(PARAMETER, "arguments are %zu bytes, no multiple of 8", bytes);
    std::vector<uint64_t> words(bytes / 8);
    std::memcpy(words.data(), data, bytes);
    const Function f = *static_cast<Function*>(function);
    if (packed_by_hand && HasSync(f)) {
        if (words.empty() || words[0] != SyncAddress()) return Enqueue(stream, [] { return Say(EXCEPTION,
            "the address of aclrtGetHardwareSyncAddr does not stand first"); });
        words.erase(words.begin());
    }
    return Enqueue(stream, [f, words, count, own_us] { return RunKernel(f, words, count, own_us); });
}
Error Load(const std::string& path, void** out) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return Say(FILE_OPEN, "%s", dlerror());
    if (!dlsym(library, "standin_launch")) return dlclose(library), Say(FILE_OPEN, "%s is no kernel of the stand-in", path.c_str());
    binaries.push_back(std::make_unique<Binary>(Binary{library}));
    *out = binaries.back().get();
    return OK;
}
Error LoadBytes(const void* data, size_t size, void** out) {
    const int file = memfd_create("kernel", 0);
    if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) return Say(FILE_OPEN, "the binary cannot be kept");
    return Load("/proc/self/fd/" + std::to_string(file), out);  // the file stays open: its name must stay this one's
}

}  // namespace

struct aclrtLaunchKernelAttr { int32_t id; uint32_t value[4]; };
struct aclrtLaunchKernelCfg { aclrtLaunchKernelAttr* attrs; size_t count; };
struct aclrtBinaryLoadOption { int32_t type; uint32_t value[4]; };
struct aclrtBinaryLoadOptions { aclrtBinaryLoadOption* options; size_t count; };
struct aclCANNPackageVersion { char text[512]; };
enum { SCHEM_MODE = 1, TIMEOUT_S = 7, TIMEOUT_US = 8, LAST_ATTRIBUTE = STANDIN_ACL == 81 ? SCHEM_MODE : 9 };
// The time limit that a launch's attributes set, in *us; PARAMETER for an attribute that the release has not, or for both limits at once.
static Error ReadAttributes(const aclrtLaunchKernelCfg* config, uint64_t* us) {
    for (size_t i = 0; config && i < config->count; i++) {
        const aclrtLaunchKernelAttr& a = config->attrs[i];
        if (a.id < 1 || a.id > LAST_ATTRIBUTE) return Say(PARAMETER, "no launch attribute %d", a.id);
        if (a.id != TIMEOUT_S && a.id != TIMEOUT_US) continue;
        if (*us) return Say(PARAMETER, "both limits of a launch at once");
        *us = a.id == TIMEOUT_S ? (a.value[0] & 0xFFFF) * uint64_t{1000000} : a.value[0] | uint64_t{a.value[1]} << 32;
    }
    return OK;
}
static_assert(sizeof(aclrtLaunchKernelAttr) == 20 && sizeof(aclrtLaunchKernelCfg) == 16 && sizeof(aclrtBinaryLoadOption) == 20 &&
              sizeof(aclrtBinaryLoadOptions) == 16 && sizeof(aclCANNPackageVersion) == 512, "sizes of the published structs");

// ---------------------------------------------------------------- start, device, context
API Error aclInit(const char*) {
    std::lock_guard<std::mutex> lock(guard);
    const std::string injected = Injected("aclInit");
    if (!injected.empty()) return Say(std::atoi(injected.c_str()), "aclInit fails as it was told to");
    if (started) return Say(STARTED, "aclInit a second time");
    started = true;
    return OK;
}
API Error aclFinalize() {
    BEGIN("aclFinalize", false)
    started = false;
    return OK;
}
#if STANDIN_ACL >= 85
API Error aclFinalizeReference(uint64_t* left) {
    BEGIN("aclFinalizeReference", false)
    started = false;
    if (left) *left = 0;
    return OK;
}
#endif
API const char* aclGetRecentErrMsg() {
    static thread_local std::string said;
    said.swap(recent);
    recent.clear();
    return said.empty() ? nullptr : said.c_str();
}
API Error aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
    *major = 1, *minor = STANDIN_ACL == 81 ? 12 : STANDIN_ACL == 85 ? 16 : 17, *patch = 0;
    return OK;
}
API Error aclsysGetCANNVersion(int32_t, aclCANNPackageVersion* out) {
    std::memset(out, 0, sizeof *out);
    std::snprintf(out->text, sizeof out->text, "%d.%d stand-in", STANDIN_ACL / 10, STANDIN_ACL % 10);
    return OK;
}
API Error aclrtGetDeviceCount(uint32_t* count) {
    BEGIN("aclrtGetDeviceCount", false)
    *count = static_cast<uint32_t>(std::max(DeviceCount(), 0));
    return OK;
}
API const char* aclrtGetSocName() { return DeviceCount() > 0 ? Soc() : nullptr; }
API Error aclrtSetDevice(int32_t device) {
    BEGIN("aclrtSetDevice", false)
    if (DeviceCount() < 0) return Say(DRIVER, "the driver does not answer");
    if (device < 0 || device >= DeviceCount()) return Say(NO_DEVICE, "device %d: there are %d", device, DeviceCount());
    contexts.push_back(std::make_unique<Context>(Context{device}));
    current = contexts.back().get();
    return OK;
}
static Error Reset(const char* name, int32_t device) {
    BEGIN(name, false)
    for (auto& c : contexts)
        if (c->device == device && c.get() == current) current = nullptr;
    contexts.erase(std::remove_if(contexts.begin(), contexts.end(), [&](const auto& c) { return c->device == device; }), contexts.end());
    return OK;
}
API Error aclrtResetDevice(int32_t device) { return Reset("aclrtResetDevice", device); }
API Error aclrtResetDeviceForce(int32_t device) { return Reset("aclrtResetDeviceForce", device); }
API Error aclrtCreateContext(void** out, int32_t device) {
    BEGIN("aclrtCreateContext", false)
    if (device < 0 || device >= DeviceCount()) return Say(NO_DEVICE, "device %d: there are %d", device, DeviceCount());
    contexts.push_back(std::make_unique<Context>(Context{device}));
    *out = current = contexts.back().get();
    return OK;
}
API Error aclrtSetCurrentContext(void* context) {
    BEGIN("aclrtSetCurrentContext", false)
    if (!Knows(contexts, context)) return Say(HANDLE, "no such context");
    current = static_cast<Context*>(context);
    return OK;
}
API Error aclrtDestroyContext(void* context) {
    BEGIN("aclrtDestroyContext", false)
    if (!Knows(contexts, context)) return Say(HANDLE, "no such context");
    if (current == context) current = nullptr;
    Forget(contexts, context);
    return OK;
}
API Error aclrtQueryDeviceStatus(int32_t, int32_t* status) {
    std::lock_guard<std::mutex> lock(guard);
    *status = lost ? 1 : 0;
    return OK;
}
#if STANDIN_ACL >= 85
API Error aclrtGetDeviceInfo(uint32_t, int32_t what, int64_t* value) {
    BEGIN("aclrtGetDeviceInfo", false)
    const int product = ProductOf(Soc());
    const std::map<int32_t, int64_t> facts = {{101, product == 2201 ? 20 : product == 2002 ? 8 : 32}, {102, product == 2201 ? 20 : 8},
        {201, product == 2201 ? 40 : 8},
                                              {204, product == 2201 ? 196608 : 262144}, {302, 192 << 20}, {601, product}};
    const auto found = facts.find(what);
    if (found == facts.end()) return Say(PARAMETER, "the stand-in has no attribute %d", what);
    *value = found->second;
    return OK;
}
#endif

// ---------------------------------------------------------------- memory
API Error aclrtMalloc(void** out, size_t size, int32_t) {
    BEGIN("aclrtMalloc")
    if (!size) return Say(PARAMETER, "aclrtMalloc of 0 bytes");
    const size_t whole = (size + 31) / 32 * 32 + 32;
    std::unique_ptr<uint8_t[]> bytes(new (std::nothrow) uint8_t[whole + 64]);
    if (!bytes) return Say(NO_MEMORY, "aclrtMalloc of %zu bytes", size);
    auto* at = reinterpret_cast<uint8_t*>((reinterpret_cast<uint64_t>(bytes.get()) + 63) / 64 * 64);
    std::memset(at, 0xFF, whole);
    const uint64_t key = reinterpret_cast<uint64_t>(at);
    blocks[key] = Block{std::move(bytes), at, whole};
    *out = reinterpret_cast<void*>(key | DEVICE);
    return OK;
}
API Error aclrtFree(void* pointer) {
    BEGIN("aclrtFree")
    if (!(reinterpret_cast<uint64_t>(pointer) & DEVICE) ||
        !blocks.erase(reinterpret_cast<uint64_t>(pointer) ^ DEVICE)) return Say(PARAMETER, "aclrtFree of what aclrtMalloc did not give");
    return OK;
}
API Error aclrtGetMemInfo(int32_t, size_t* free, size_t* total) {
    BEGIN("aclrtGetMemInfo")
    size_t used = 0;
    for (auto& b : blocks) used += b.second.size;
    *total = size_t{32} << 30, *free = *total - std::min(*total, used);
    return OK;
}
API Error aclrtMallocHost(void** out, size_t size) {
    BEGIN("aclrtMallocHost")
    *out = std::malloc(size);
    return *out ? OK : Say(NO_MEMORY, "aclrtMallocHost of %zu bytes", size);
}
API Error aclrtFreeHost(void* pointer) {
    BEGIN("aclrtFreeHost")
    std::free(pointer);
    return OK;
}
API Error aclrtMemcpy(void* to, size_t most, const void* from, size_t count, int32_t kind) {
    BEGIN("aclrtMemcpy")
    return CopyNow(to, most, from, count, kind);
}
API Error aclrtMemcpyAsync(void* to, size_t most, const void* from, size_t count, int32_t kind, void* stream) {
    BEGIN("aclrtMemcpyAsync")
    return Enqueue(stream, [=] { return CopyNow(to, most, from, count, kind); });
}
API Error aclrtMemset(void* to, size_t most, int32_t value, size_t count) {
    BEGIN("aclrtMemset")
    return FillNow(to, most, value, count);
}
API Error aclrtMemsetAsync(void* to, size_t most, int32_t value, size_t count, void* stream) {
    BEGIN("aclrtMemsetAsync")
    return Enqueue(stream, [=] { return FillNow(to, most, value, count); });
}

// ---------------------------------------------------------------- streams, events, limits
API Error aclrtCreateStream(void** out) {
    BEGIN("aclrtCreateStream")
    streams.push_back(std::make_unique<Stream>(Stream{current, {}, false}));
    *out = streams.back().get();
    return OK;
}
API Error aclrtCreateStreamWithConfig(void** out, uint32_t, uint32_t) { return aclrtCreateStream(out); }
API Error aclrtDestroyStream(void* stream) {
    BEGIN("aclrtDestroyStream")
    if (!Knows(streams, stream)) return Say(HANDLE, "no such stream");
    Forget(streams, stream);
    return OK;
}
API Error aclrtDestroyStreamForce(void* stream) { return aclrtDestroyStream(stream); }
API Error aclrtSynchronizeStreamWithTimeout(void* stream, int32_t ms) {
    BEGIN("aclrtSynchronizeStreamWithTimeout")
    if (!Knows(streams, stream)) return Say(HANDLE, "no such stream");
    return Finish(*static_cast<Stream*>(stream), ms);
}
API Error aclrtSynchronizeStream(void* stream) {
    BEGIN("aclrtSynchronizeStream")
    if (!Knows(streams, stream)) return Say(HANDLE, "no such stream");
    return Finish(*static_cast<Stream*>(stream), -1);
}
API Error aclrtSynchronizeDevice() {
    BEGIN("aclrtSynchronizeDevice")
    Error first = OK;
    for (auto& s : streams)
        if (const Error e = Finish(*s, -1); e && !first) first = e;
    return first;
}
API Error aclrtSetStreamFailureMode(void* stream, uint64_t mode) {
    BEGIN("aclrtSetStreamFailureMode")
    if (!Knows(streams, stream)) return Say(HANDLE, "no such stream");
    stops = mode == 1;
    return OK;
}
API Error aclrtStreamAbort(void* stream) {
    BEGIN("aclrtStreamAbort")
    if (!Knows(streams, stream)) return Say(HANDLE, "no such stream");
    static_cast<Stream*>(stream)->tasks.clear();
    static_cast<Stream*>(stream)->aborted = true;
    return OK;
}
API Error aclrtDeviceTaskAbort(int32_t, uint32_t) {
    BEGIN("aclrtDeviceTaskAbort", false)
    for (auto& s : streams) s->tasks.clear();
    return OK;
}
API Error aclrtSetOpExecuteTimeOut(uint32_t seconds) {
    BEGIN("aclrtSetOpExecuteTimeOut", false)
    limit_us = uint64_t{seconds} * 1000000;
    return OK;
}
API Error aclrtSetOpWaitTimeout(uint32_t) { return OK; }
#if STANDIN_ACL >= 85
API Error aclrtSetOpExecuteTimeOutV2(uint64_t us, uint64_t* actual) {
    BEGIN("aclrtSetOpExecuteTimeOutV2", false)
    limit_us = us;
    if (actual) *actual = us;
    return OK;
}
API Error aclrtGetOpTimeOutInterval(uint64_t* us) {
    BEGIN("aclrtGetOpTimeOutInterval", false)
    const char* said = std::getenv("AOEC_STANDIN_INTERVAL");
    *us = said ? std::strtoull(said, nullptr, 10) : 100000;
    return OK;
}
#endif
API Error aclrtCreateEvent(void** out) {
    BEGIN("aclrtCreateEvent")
    events.push_back(std::make_unique<Event>());
    *out = events.back().get();
    return OK;
}
API Error aclrtCreateEventWithFlag(void** out, uint32_t) { return aclrtCreateEvent(out); }
API Error aclrtCreateEventExWithFlag(void** out, uint32_t) { return aclrtCreateEvent(out); }
API Error aclrtDestroyEvent(void* event) {
    BEGIN("aclrtDestroyEvent")
    if (!Knows(events, event)) return Say(HANDLE, "no such event");
    Forget(events, event);
    return OK;
}
API Error aclrtRecordEvent(void* event, void* stream) {
    BEGIN("aclrtRecordEvent")
    if (!Knows(events, event)) return Say(HANDLE, "no such event");
    static_cast<Event*>(event)->recorded = false;  // until the stream comes to it again
    return Enqueue(stream, [e = static_cast<Event*>(event)] { return e->recorded = true, e->at = std::chrono::steady_clock::now(), OK; });
}
API Error aclrtSynchronizeEvent(void* event) {
    BEGIN("aclrtSynchronizeEvent")
    if (!Knows(events, event)) return Say(HANDLE, "no such event");
    Error first = OK;
    for (auto& s : streams)
        if (const Error e = Finish(*s, -1); e && !first) first = e;
    return first ? first : static_cast<Event*>(event)->recorded ? OK : Say(NOT_RECORDED, "the event was not recorded");
}
API Error aclrtEventElapsedTime(float* ms, void* from, void* to) {
    BEGIN("aclrtEventElapsedTime")
    if (!Knows(events, from) || !Knows(events, to)) return Say(HANDLE, "no such event");
    const Event &a = *static_cast<Event*>(from), &b = *static_cast<Event*>(to);
    if (!a.recorded || !b.recorded) return Say(NOT_RECORDED, "an event was not recorded, or nobody waited for its stream");
    if (b.at < a.at) return Say(REVERSED, "the second event is before the first");
    *ms = std::chrono::duration<float, std::milli>(b.at - a.at).count();
    return OK;
}
API Error aclrtEventGetTimestamp(void* event, uint64_t* us) {
    BEGIN("aclrtEventGetTimestamp")
    if (!Knows(events, event) || !static_cast<Event*>(event)->recorded) return Say(NOT_RECORDED, "the event was not recorded");
    const auto since = static_cast<Event*>(event)->at.time_since_epoch();
    *us = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
    return OK;
}

// ---------------------------------------------------------------- binaries and launches
API Error aclrtBinaryLoadFromFile(const char* path, const aclrtBinaryLoadOptions* options, void** out) {
    BEGIN("aclrtBinaryLoadFromFile")
    if (!path || path[0] != '/') return Say(PARAMETER, "the path of a binary must be absolute: %s", path ? path : "none");
    for (size_t i = 0; options && i < options->count; i++)
        if (options->options[i].type == MAGIC_OPTION) return Say(PARAMETER, "aclrtBinaryLoadFromFile takes no magic");
    return Load(path, out);
}
API void* aclrtCreateBinary(const void* data, size_t size) {
    std::lock_guard<std::mutex> lock(guard);
    images.push_back(std::make_unique<DataBinary>(DataBinary{data, size}));
    return images.back().get();
}
API Error aclrtDestroyBinary(void* image) {
    BEGIN("aclrtDestroyBinary", false)
    Forget(images, image);
    return OK;
}
API Error aclrtBinaryLoad(void* image, void** out) {
    BEGIN("aclrtBinaryLoad")
    if (!Knows(images, image)) return Say(HANDLE, "no such binary");
    return LoadBytes(static_cast<DataBinary*>(image)->data, static_cast<DataBinary*>(image)->size, out);
}
#if STANDIN_ACL >= 85
API Error aclrtBinaryLoadFromData(const void* data, size_t size, const aclrtBinaryLoadOptions*, void** out) {
    BEGIN("aclrtBinaryLoadFromData")
    return LoadBytes(data, size, out);
}
#endif
API Error aclrtBinaryGetFunction(void* binary, const char* name, void** out) {
    BEGIN("aclrtBinaryGetFunction")
    if (!Knows(binaries, binary)) return Say(HANDLE, "no such binary");
    void* library = static_cast<Binary*>(binary)->library;
    void* entry = dlsym(library, name);
    if (!entry) entry = dlsym(library, (std::string(name) + "_mix_aic").c_str());  // the older route names halves of mixed kernels so
    if (!entry) return Say(LOOKUP, "the binary has no kernel %s", name);
    if (const auto product = reinterpret_cast<int32_t (*)()>(dlsym(library, "standin_product"))(); product != ProductOf(Soc()))
        return Say(LOOKUP, "the kernel is for product %d, and this device is %s", product, Soc());
    const auto kind = reinterpret_cast<int32_t (*)(void*)>(dlsym(library, "standin_kind"))(entry);
    functions.push_back(std::make_unique<Function>(Function{entry, reinterpret_cast<Launch>(dlsym(library, "standin_launch")), kind}));
    *out = functions.back().get();
    return OK;
}
API Error aclrtBinaryUnLoad(void* binary) {
    BEGIN("aclrtBinaryUnLoad")
    if (!Knows(binaries, binary)) return Say(HANDLE, "no such binary");
    Forget(binaries, binary);  // the code stays: a stream may still hold a launch of it
    return OK;
}
API Error aclrtKernelArgsInit(void* function, void** out) {
    BEGIN("aclrtKernelArgsInit")
    if (!Knows(functions, function)) return Say(HANDLE, "no such function");
    arguments = Arguments();
    arguments.function = static_cast<Function*>(function);
    *out = &arguments;
    return OK;
}
API Error aclrtKernelArgsAppend(void* handle, void* value, size_t size, void** parameter) {
    BEGIN("aclrtKernelArgsAppend")
    if (handle != &arguments || arguments.whole) return Say(PARAMETER, "arguments are finished, or of another thread");
    if (arguments.count == MOST_PARAMETERS || arguments.bytes.size() + size > MOST_BYTES) return Say(LIMIT,
        "more than 128 parameters or 64 KiB");
    arguments.bytes.resize((arguments.bytes.size() + 7) / 8 * 8);
    const size_t at = arguments.bytes.size();
    arguments.bytes.resize(at + size);
    std::memcpy(&arguments.bytes[at], value, size);
    arguments.count++;
    if (parameter) *parameter = reinterpret_cast<void*>(at + 1);
    return OK;
}
API Error aclrtKernelArgsFinalize(void* handle) {
    BEGIN("aclrtKernelArgsFinalize")
    if (handle != &arguments || arguments.whole) return Say(PARAMETER, "arguments are finished, or of another thread");
    arguments.bytes.resize((arguments.bytes.size() + 7) / 8 * 8);
    arguments.whole = true;
    return OK;
}
API Error aclrtLaunchKernelWithConfig(void* function, uint32_t count, void* stream, aclrtLaunchKernelCfg* config, void* handle,
    void* reserved) {
    BEGIN("aclrtLaunchKernelWithConfig")
    if (reserved) return Say(PARAMETER, "the reserved argument must be null");
    if (handle != &arguments || !arguments.whole || arguments.function != function) return Say(PARAMETER,
        "arguments are unfinished, or of another function");
    uint64_t us = 0;
    if (const Error e = ReadAttributes(config, &us)) return e;
    return Start(function, count, stream, arguments.bytes.data(), arguments.bytes.size(), false, us);
}
API Error aclrtLaunchKernel(void* function, uint32_t count, const void* data, size_t size, void* stream) {
    BEGIN("aclrtLaunchKernel")
    const uint8_t* real = OnDevice(data, size);
    if (!real) return Say(PARAMETER, "aclrtLaunchKernel takes arguments in device memory");
    return Start(function, count, stream, real, size, true);
}
#if STANDIN_ACL >= 85
struct aclrtPlaceHolderInfo { uint32_t address, data; };
static_assert(sizeof(aclrtPlaceHolderInfo) == 8, "the published struct");
// A placeholder is a word of the arguments that becomes the address on the device of bytes behind them.
API Error aclrtLaunchKernelWithHostArgs(void* function, uint32_t count, void* stream, aclrtLaunchKernelCfg* config, void* data, size_t size,
    aclrtPlaceHolderInfo* holders, size_t many) {
    BEGIN("aclrtLaunchKernelWithHostArgs")
    uint64_t us = 0;
    if (const Error e = ReadAttributes(config, &us)) return e;
    if (many) return Say(PARAMETER, "the stand-in has no placeholders");
    static_cast<void>(holders);
    return Start(function, count, stream, data, size, true, us);
}
API Error aclrtGetHardwareSyncAddr(void** address) {
    BEGIN("aclrtGetHardwareSyncAddr")
    *address = reinterpret_cast<void*>(SyncAddress());
    return OK;
}
#endif
// of libruntime.so
API Error rtGetC2cCtrlAddr(uint64_t* address, uint32_t* length) {
    BEGIN("rtGetC2cCtrlAddr")
    *address = SyncAddress(), *length = 8;
    return OK;
}
#if STANDIN_ACL >= 91
API Error aclrtDeviceL2CacheFlush() {
    BEGIN("aclrtDeviceL2CacheFlush")
    return OK;
}
#endif
