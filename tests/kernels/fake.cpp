// A CUDA without a GPU, for tests: driver, NVRTC and cuBLASLt as one library. Device memory is memory of the host, NVRTC
// compiles kernels for the CPU (host.h), GEMMs are summed term by term, and a stream that is captured keeps its calls
// for the launch of its graph. What may not be called during a capture fails, as on a GPU. Calls are written to FAKE_LOG.
// FAKE_FAULTS names a file of faults, one a line, that is read each time the driver is initialised:
//   die N                 after N launches of graphs every call fails, as after an illegal address
//   drift R               every launch of a graph makes time longer by this share
//   no_nvml, no_cudnn     the library is there and does not open
//   no_compile FILE       NVRTC refuses this source; * refuses all
//   fail_kernel NAME      the launch of this kernel is refused
//   wrong_kernel NAME     this kernel writes nothing
//   wrong_gemm PATH       results are a tenth too large: format, `single` or `batched`, transposes, as in `bf16 single tn`
//   refuse_gemm M S       about one shape in M has no algorithm, which ones follows from S
//   refuse_fp8 WHICH      fp8 has no algorithm for `batched` or `single_row`
//   refuse_attention M S  about one shape in M has no engine
//   engines N             the first N engines of each shape do not finalize
//   own_plans             a handle of cuDNN runs no plan that another one compiled
//   wrong_attention WHICH this pass writes nothing: `forward causal`, `backward`, `backward causal`

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_VALUE = 1, NO_DEVICE = 100, ILLEGAL_ADDRESS = 700, NOT_FOUND = 500, CAPTURE_UNSUPPORTED = 900 };

static std::string setting(const char* name) {
    const char* value = getenv(name);
    return value ? value : "";
}
static void note(const std::string& what) {
    static std::string path = setting("FAKE_LOG");
    if (!path.empty()) std::ofstream(path, std::ios::app) << what << "\n";
}

// Faults.
static std::map<std::string, std::string> faults;
static long launches = 0;
static void read_faults() {
    faults.clear();
    launches = 0;
    std::ifstream file(setting("FAKE_FAULTS"));
    std::string line;
    while (std::getline(file, line)) faults[line.substr(0, line.find(' '))] = line.find(' ') == std::string::npos ? "" : line.substr(line.find(' ') + 1);
}
static bool fault(const char* name) { return faults.count(name) != 0; }
static bool fault(const char* name, const std::string& value) { return fault(name) && (faults[name] == value || faults[name] == "*"); }
static long number_of(const char* name) { return fault(name) ? atol(faults[name].c_str()) : 0; }
static bool refuses(const char* name, uint64_t shape) {
    if (!fault(name)) return false;
    uint64_t every = 0, salt = 0;
    std::stringstream(faults[name]) >> every >> salt;
    shape = (shape + salt + 1) * 0x9e3779b97f4a7c15ull;
    return (shape >> 33) % every == 0;
}
static bool is_modelled() { static bool is = !setting("FAKE_MODELLED").empty(); return is; }
static bool dead() { return fault("die") && launches >= number_of("die"); }

// Streams and graphs.
typedef std::vector<std::function<void()>> Calls;
static bool capturing = false;
static Calls captured;
static void enqueue_as_it_is(std::function<void()> call) {
    if (capturing) captured.push_back(call);
    else call();
}
// With FAKE_MODELLED every call takes 10 us on a clock of the fake's own, and replays of graphs compute nothing anew.
static bool replaying = false;
static double modelled_us = 0;
static void enqueue(std::function<void()> call) {
    enqueue_as_it_is([=] {
        modelled_us += 10;
        if (!(is_modelled() && replaying)) call();
    });
}
#define NOT_WHILE_CAPTURING(name) \
    do { note(name); if (capturing) return CAPTURE_UNSUPPORTED; if (dead()) return ILLEGAL_ADDRESS; } while (0)

API int cuInit(unsigned) { read_faults(); return setting("FAKE_DEVICES") == "0" ? NO_DEVICE : SUCCESS; }
API int cuDriverGetVersion(int* version) { *version = setting("FAKE_DRIVER").empty() ? 13000 : atoi(setting("FAKE_DRIVER").c_str()); return SUCCESS; }
API int cuGetErrorName(int error, const char** text) { *text = error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_THE_FAKE"; return SUCCESS; }
API int cuGetErrorString(int error, const char** text) { *text = error == NO_DEVICE ? "no CUDA-capable device is detected" : "the fake refuses"; return SUCCESS; }
API int cuDeviceGetCount(int* count) { *count = 1; return SUCCESS; }
API int cuDeviceGet(int* device, int index) { *device = index; return index == 0 ? SUCCESS : 101; }
API int cuDeviceGetName(char* name, int size, int) { snprintf(name, size, "NVIDIA H200"); return SUCCESS; }
API int cuDeviceTotalMem_v2(size_t* bytes, int) { *bytes = 1ull << 30; return SUCCESS; }
API int cuDeviceGetPCIBusId(char* name, int size, int) { snprintf(name, size, "0000:ff:1f.0"); return SUCCESS; }
API int cuDeviceGetAttribute(int* value, int attribute, int) {
    static const std::map<int, int> known = {{13, 1980000}, {16, 2}, {38, 1 << 20}, {75, 9}, {76, 0}, {97, 232448}, {115, 1}};
    auto found = known.find(attribute);
    *value = found == known.end() ? 0 : found->second;
    if (attribute == 38 && is_modelled()) *value = 1 << 14;
    return SUCCESS;
}
static void* current_context = nullptr;
API int cuDevicePrimaryCtxRetain(void** context, int) { *context = (void*)0x10; return SUCCESS; }
API int cuDevicePrimaryCtxRelease_v2(int) { note("context release"); return SUCCESS; }
API int cuCtxGetCurrent(void** context) { *context = current_context; return SUCCESS; }
API int cuCtxSetCurrent(void* context) { current_context = context; return SUCCESS; }
API int cuStreamCreate(void** stream, unsigned) { *stream = (void*)0x20; return SUCCESS; }
API int cuStreamDestroy_v2(void*) { note("stream destroy"); return SUCCESS; }
API int cuStreamSynchronize(void*) { NOT_WHILE_CAPTURING("stream synchronize"); return SUCCESS; }
API int cuStreamBeginCapture_v2(void*, int) { note("capture begin"); if (capturing) return INVALID_VALUE; capturing = true; captured.clear(); return SUCCESS; }
API int cuStreamEndCapture(void*, void** graph) { note("capture end"); if (!capturing) return INVALID_VALUE; capturing = false; *graph = new Calls(captured); return SUCCESS; }
API int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) { note("graph instantiate"); *executable = new Calls(*(Calls*)graph); return SUCCESS; }
API int cuGraphUpload(void*, void*) { note("graph upload"); return SUCCESS; }
API int cuGraphLaunch(void* executable, void*) { NOT_WHILE_CAPTURING("graph launch"); ++launches; replaying = true; for (auto& call : *(Calls*)executable) call(); replaying = false; return SUCCESS; }
API int cuGraphExecDestroy(void* executable) { note("graph destroy"); delete (Calls*)executable; return SUCCESS; }
API int cuGraphDestroy(void* graph) { delete (Calls*)graph; return SUCCESS; }

typedef std::chrono::steady_clock Clock;
static Clock::time_point now() { return is_modelled() ? Clock::time_point(std::chrono::nanoseconds((long)(modelled_us * 1e3))) : Clock::now(); }
API int cuEventCreate(void** event, unsigned flags) { if (flags & 2) return INVALID_VALUE; *event = new Clock::time_point(); return SUCCESS; }
API int cuEventDestroy_v2(void* event) { delete (Clock::time_point*)event; return SUCCESS; }
API int cuEventRecord(void* event, void*) { NOT_WHILE_CAPTURING("event record"); *(Clock::time_point*)event = now(); return SUCCESS; }
// As a node of a graph while a stream is captured, and nowhere else.
API int cuEventRecordWithFlags(void* event, void*, unsigned flags) {
    note("event node");
    if (flags != 1 || !capturing) return INVALID_VALUE;
    enqueue_as_it_is([=] { *(Clock::time_point*)event = now(); });
    return SUCCESS;
}
API int cuEventSynchronize(void*) { NOT_WHILE_CAPTURING("event synchronize"); return SUCCESS; }
API int cuEventElapsedTime_v2(float* millis, void* begin, void* end) {
    *millis = std::chrono::duration<float, std::milli>(*(Clock::time_point*)end - *(Clock::time_point*)begin).count();
    if (fault("drift")) *millis *= 1 + launches * atof(faults["drift"].c_str());
    return SUCCESS;
}

// Memory. The pool is one mapping that only costs what is touched.
static std::map<uint64_t, size_t> mappings;
API int cuMemGetInfo_v2(size_t* free, size_t* total) { *free = *total = 1ull << 30; return SUCCESS; }
API int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
    NOT_WHILE_CAPTURING("memory allocate");
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 2;
    mappings[*address = (uint64_t)at] = bytes;
    return SUCCESS;
}
API int cuMemFree_v2(uint64_t address) { note("memory free"); munmap((void*)address, mappings[address]); return mappings.erase(address) ? SUCCESS : INVALID_VALUE; }
API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void*) { NOT_WHILE_CAPTURING("memory write"); memcpy((void*)to, from, bytes); return SUCCESS; }
API int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) { NOT_WHILE_CAPTURING("memory read"); memcpy(to, (void*)from, bytes); return SUCCESS; }
API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void*) { if (dead()) return ILLEGAL_ADDRESS; enqueue([=] { memset((void*)to, value, bytes); }); return SUCCESS; }

// Kernels: an image is the path of a library for the CPU.
typedef std::function<void()>* Bind(void**, const unsigned*);
struct Function { Bind* bind; std::string name; unsigned shared; };
API int cuModuleLoadData(void** module, const void* image) {
    NOT_WHILE_CAPTURING("module load");
    *module = dlopen((const char*)image, RTLD_NOW | RTLD_LOCAL);
    if (!*module) fprintf(stderr, "%s\n", dlerror());
    return *module ? SUCCESS : INVALID_VALUE;
}
API int cuModuleUnload(void*) { return SUCCESS; }
API int cuModuleGetFunction(void** function, void* module, const char* name) {
    static std::map<std::pair<void*, std::string>, Function*> known;
    void* symbol = dlsym(module, ("bind_" + std::string(name)).c_str());
    if (!symbol) return NOT_FOUND;
    Function*& found = known[{module, name}];
    // Of 48 KiB, static variables of a kernel take up to one.
    if (!found) found = new Function{(Bind*)symbol, name, 47 << 10};
    *function = found;
    return SUCCESS;
}
API int cuFuncSetAttribute(void* function, int attribute, int value) {
    if (attribute == 8) ((Function*)function)->shared = value;
    return value <= 232448 ? SUCCESS : INVALID_VALUE;
}
API int cuLaunchKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void*, void** parameters, void**) {
    Function* function = (Function*)handle;
    note("launch " + function->name);
    bool valid = gx && gy == 1 && gz == 1 && bz == 1 && bx * by >= 1 && bx * by <= 1024 && shared <= function->shared;
    if (dead()) return ILLEGAL_ADDRESS;
    if (!valid || fault("fail_kernel", function->name)) return INVALID_VALUE;
    if (fault("wrong_kernel", function->name)) return SUCCESS;
    if (is_modelled() && function->name == "read") return SUCCESS;
    unsigned shape[4] = {gx, bx, by, shared};
    std::function<void()>* bound = function->bind(parameters, shape);
    enqueue([=] { (*bound)(); });
    return SUCCESS;
}

// NVRTC: the very text that it is given, compiled for the CPU with host.h in front, kept by a hash of the text.
struct Program { std::string source, name, image, log; };
API int nvrtcVersion(int* major, int* minor) { *major = 13; *minor = 0; return 0; }
API int nvrtcGetNumSupportedArchs(int* count) { *count = 2; return 0; }
API int nvrtcGetSupportedArchs(int* list) { list[0] = 80; list[1] = 90; return 0; }
API const char* nvrtcGetErrorString(int) { return "the fake refuses"; }
API int nvrtcCreateProgram(Program** program, const char* source, const char* name, int, const char* const*, const char* const*) {
    *program = new Program{source, name, "", ""};
    return 0;
}
API int nvrtcDestroyProgram(Program** program) { delete *program; *program = nullptr; return 0; }
API int nvrtcCompileProgram(Program* program, int, const char* const*) {
    note("compile " + program->name);
    if (fault("no_compile", program->name)) { program->log = "error: the fake does not find its builtins"; return 6; }
    std::string header = setting("FAKE_HEADER"), folder = setting("FAKE_FOLDER"), text = program->source;
    std::string entries;
    std::regex kernel("extern \"C\" __global__ void (?:__launch_bounds__\\([^)]*\\)\\s+)?(\\w+)\\(");
    for (std::sregex_iterator at(text.begin(), text.end(), kernel), end; at != end; ++at) {
        std::string name = (*at)[1];
        entries += "extern \"C\" std::function<void()>* bind_" + name + "(void** p, const unsigned* s) { return host_bind(&" + name + ", p, s); }\n";
    }
    std::ifstream shim(header);
    std::stringstream all;
    if (program->name == "norm.cu" || program->name == "softmax.cu" || program->name == "quantize.cu") all << "#define BARRIERS\n";
    all << "#include \"" << header << "\"\n" << text << "\n" << entries;
    std::stringstream seed;
    seed << shim.rdbuf() << all.str();
    std::stringstream base;
    base << folder << "/" << std::hex << std::hash<std::string>()(seed.str());
    std::string image = base.str() + ".so";
    if (access(image.c_str(), R_OK) != 0) {
        std::string own = base.str() + "." + std::to_string(getpid());
        std::ofstream(own + ".cpp") << all.str();
        std::string command = setting("FAKE_CXX") + " -std=c++17 -O1 -w -shared -fPIC -o " + own + ".so " + own + ".cpp 2> " + own + ".log";
        if (system(command.c_str()) != 0) {
            std::ifstream log(own + ".log");
            std::stringstream said;
            said << log.rdbuf();
            program->log = said.str();
            return 6;
        }
        rename((own + ".so").c_str(), image.c_str());
        unlink((own + ".cpp").c_str());
        unlink((own + ".log").c_str());
    }
    program->image = image;
    return 0;
}
static int give(const std::string& text, char* to) { memcpy(to, text.c_str(), text.size() + 1); return 0; }
API int nvrtcGetProgramLogSize(Program* program, size_t* size) { *size = program->log.size() + 1; return 0; }
API int nvrtcGetProgramLog(Program* program, char* to) { return give(program->log, to); }
API int nvrtcGetPTXSize(Program* program, size_t* size) { *size = program->image.size() + 1; return 0; }
API int nvrtcGetPTX(Program* program, char* to) { return give(program->image, to); }
API int nvrtcGetCUBINSize(Program* program, size_t* size) { *size = program->image.size() + 1; return 0; }
API int nvrtcGetCUBIN(Program* program, char* to) { return give(program->image, to); }

// cuBLASLt: descriptors as it documents them, GEMMs by the definition.
struct Description { int compute; int transposed[2]; uint64_t scale[2]; };
struct Matrix { int type; uint64_t rows, columns; int64_t leading, stride; int32_t batch; };
enum { R_32F = 0, R_16F = 2, R_16BF = 14, R_8F_E4M3 = 28 };
API size_t cublasLtGetVersion() { return 130100; }
API int cublasLtCreate(void** handle) { *handle = (void*)0x30; return 0; }
API int cublasLtDestroy(void*) { note("cublas destroy"); return 0; }
API int cublasLtMatmulDescCreate(Description** description, int compute, int) { *description = new Description{compute, {0, 0}, {0, 0}}; return 0; }
API int cublasLtMatmulDescDestroy(Description* description) { delete description; return 0; }
API int cublasLtMatmulDescSetAttribute(Description* description, int attribute, const void* value, size_t size) {
    if (attribute == 3 || attribute == 4) { if (size != 4) return 7; memcpy(&description->transposed[attribute - 3], value, 4); }
    else if (attribute == 17 || attribute == 18) { if (size != 8) return 7; memcpy(&description->scale[attribute - 17], value, 8); }
    else if (!(attribute == 25 && size == 1)) return 7;
    return 0;
}
API int cublasLtMatrixLayoutCreate(Matrix** matrix, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    *matrix = new Matrix{type, rows, columns, leading, 0, 1};
    return 0;
}
API int cublasLtMatrixLayoutDestroy(Matrix* matrix) { delete matrix; return 0; }
API int cublasLtMatrixLayoutSetAttribute(Matrix* matrix, int attribute, const void* value, size_t size) {
    if (attribute == 5 && size == 4) memcpy(&matrix->batch, value, 4);
    else if (attribute == 6 && size == 8) memcpy(&matrix->stride, value, 8);
    else return 7;
    return 0;
}
API int cublasLtMatmulPreferenceCreate(void** preference) { *preference = new uint64_t(0); return 0; }
API int cublasLtMatmulPreferenceDestroy(void* preference) { delete (uint64_t*)preference; return 0; }
API int cublasLtMatmulPreferenceSetAttribute(void*, int attribute, const void*, size_t size) { return attribute == 1 && size == 8 ? 0 : 7; }

struct Heuristic { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; };
static bool fits(const Description* d, const Matrix* a, const Matrix* b, const Matrix* o) {
    uint64_t am = d->transposed[0] ? a->columns : a->rows, ak = d->transposed[0] ? a->rows : a->columns;
    uint64_t bk = d->transposed[1] ? b->columns : b->rows, bn = d->transposed[1] ? b->rows : b->columns;
    bool leading = a->leading >= (int64_t)a->rows && b->leading >= (int64_t)b->rows && o->leading >= (int64_t)o->rows;
    return am == o->rows && bn == o->columns && ak == bk && leading && a->batch == b->batch && a->batch == o->batch;
}
API int cublasLtMatmulAlgoGetHeuristic(void*, Description* d, Matrix* a, Matrix* b, Matrix* c, Matrix* o, void*, int wanted, Heuristic* results, int* found) {
    note("heuristic");
    if (capturing || c != o || !fits(d, a, b, o)) return 7;
    bool eight = a->type == R_8F_E4M3;
    // fp8 as on Hopper: the first transposed, the second not, everything in multiples of 16 bytes, scales given.
    if (eight && !(d->transposed[0] && !d->transposed[1] && a->rows % 16 == 0 && o->rows % 16 == 0 && d->scale[0] && d->scale[1])) { *found = 0; return 15; }
    uint64_t shape = (uint64_t)a->type;
    for (uint64_t size : {o->rows, o->columns, a->rows, (uint64_t)o->batch}) shape = shape * 1000003 + size;
    bool unsupported = eight && (fault("refuse_fp8", "batched") ? o->batch > 1 : fault("refuse_fp8", "single_row") && o->columns == 1);
    if (unsupported || refuses("refuse_gemm", shape)) { *found = 0; return 15; }
    *found = std::min(wanted, 3);
    for (int at = 0; at < *found; ++at) results[at] = Heuristic{{(uint64_t)at + 60}, 1024, 0, 1.5f, {}};
    return 0;
}
API int cublasLtMatmulAlgoConfigGetAttribute(const uint64_t* algorithm, int attribute, void* value, size_t size, size_t* written) {
    // Tile 23 is 128x256, stages 14 is 64x2, cluster 3 is 2x1x1.
    uint64_t known[9] = {algorithm[0], 23, 1, 0, 0, 0, 14, 0, 3};
    size_t sizes[9] = {4, 4, 4, 4, 4, 4, 4, 2, 2};
    if (attribute < 0 || attribute > 8 || size != sizes[attribute]) return 7;
    memcpy(value, &known[attribute], size);
    if (written) *written = size;
    return 0;
}
static double element(int type, const char* base, int64_t at) {
    if (type == R_32F) return ((const float*)base)[at];
    if (type == R_16BF) { uint32_t bits = (uint32_t)((const uint16_t*)base)[at] << 16; float value; memcpy(&value, &bits, 4); return value; }
    if (type == R_16F) {
        uint16_t bits = ((const uint16_t*)base)[at];
        int exponent = bits >> 10 & 31, mantissa = bits & 1023;
        double value = exponent == 31 ? NAN : exponent ? ldexp(mantissa + 1024, exponent - 25) : ldexp(mantissa, -24);
        return bits & 0x8000 ? -value : value;
    }
    uint8_t bits = ((const uint8_t*)base)[at];
    int exponent = bits >> 3 & 15, mantissa = bits & 7;
    double value = exponent ? ldexp(mantissa + 8, exponent - 10) : ldexp(mantissa, -9);
    if ((bits & 0x7f) == 0x7f) value = NAN;
    return bits & 0x80 ? -value : value;
}
static void put(int type, char* base, int64_t at, double value) {
    float single = (float)value;
    if (type == R_32F) ((float*)base)[at] = single;
    else if (type == R_16BF) { uint32_t bits; memcpy(&bits, &single, 4); ((uint16_t*)base)[at] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16; }
    else {
        int exponent;
        frexp(single, &exponent);
        exponent = single == 0 ? -14 : std::max(exponent - 1, -14);
        uint16_t bits = ((exponent + 14) << 10) + (unsigned)nearbyint(ldexp(fabs(single), 10 - exponent));
        ((uint16_t*)base)[at] = bits | (std::signbit(single) ? 0x8000 : 0);
    }
}
API int cublasLtMatmul(void*, Description* description, const float* alpha, const char* a, Matrix* first, const char* b, Matrix* second,
                       const float* beta, const char*, Matrix*, char* out, Matrix* output, const uint64_t* algorithm, void* workspace,
                       size_t workspace_bytes, void*) {
    note("gemm");
    if (!fits(description, first, second, output) || !algorithm || workspace_bytes < 1024 || (uint64_t)workspace % 256) return 7;
    Description d = *description;
    Matrix A = *first, B = *second, O = *output;
    double factor = *alpha;
    if (*beta != 0) return 7;
    if (dead()) return 13;
    std::string path = A.type == R_8F_E4M3 ? "fp8 " : A.type == R_16BF ? "bf16 " : A.type == R_16F ? "fp16 " : "fp32 ";
    path += std::string(O.batch > 1 ? "batched " : "single ") + (d.transposed[0] ? "t" : "n") + (d.transposed[1] ? "t" : "n");
    if (fault("wrong_gemm", path)) factor *= 1.1;
    enqueue([=] {
        double scale = factor;
        for (uint64_t at : d.scale) if (at) scale *= *(const float*)at;
        uint64_t inner = d.transposed[0] ? A.rows : A.columns;
        // Large GEMMs are only there to keep a GPU busy.
        if (O.rows * O.columns * inner > 100000000ull) return;
        auto elements = [](const Matrix& of, const char* base, int member) {
            std::vector<float> values((of.columns - 1) * of.leading + of.rows);
            for (size_t at = 0; at < values.size(); ++at) values[at] = element(of.type, base, member * of.stride + at);
            return values;
        };
        for (int member = 0; member < O.batch; ++member) {
            std::vector<float> left = elements(A, a, member), right = elements(B, b, member);
            for (uint64_t column = 0; column < O.columns; ++column)
                for (uint64_t row = 0; row < O.rows; ++row) {
                    double sum = 0;
                    for (uint64_t k = 0; k < inner; ++k)
                        sum += (double)left[d.transposed[0] ? k + row * A.leading : row + k * A.leading] *
                               right[d.transposed[1] ? column + k * B.leading : k + column * B.leading];
                    put(O.type, out, member * O.stride + row + column * O.leading, scale * sum);
                }
        }
    });
    return 0;
}

// NVML.
API int nvmlInit_v2() { return fault("no_nvml") ? 999 : 0; }
API int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) { *device = (void*)0x50; return 0; }
API int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { *milliwatts = 321000; return 0; }
API int nvmlDeviceGetTemperature(void*, unsigned, unsigned* degrees) { *degrees = 54; return 0; }
API int nvmlDeviceGetClockInfo(void*, unsigned, unsigned* megahertz) { *megahertz = 1755; return 0; }
API int nvmlSystemGetDriverVersion(char* text, unsigned size) { snprintf(text, size, "580.0.fake"); return 0; }

#include "fake_cudnn.h"
