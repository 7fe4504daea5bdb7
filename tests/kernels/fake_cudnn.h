// A cuDNN without a GPU: descriptors keep their attributes, the heuristic names three engines, and a plan evaluates its
// graph operation by operation in double precision through the sizes and strides of its tensors, so that a wrong stride
// or binding is a wrong result. Part of fake.cpp.

enum { NOT_SUPPORTED = 3000, BAD_PARAM = 2000, EXECUTION_FAILED = 5000 };
struct Backend {
    int kind;
    bool finalized = false;
    std::map<int, std::vector<char>> values;
    Backend* engine_of = nullptr;  // The graph of an engine's configuration.
    int number = 0;                // Its place in the heuristic's list.

    template <typename T> std::vector<T> all(int name) const {
        auto found = values.find(name);
        std::vector<T> list;
        if (found == values.end()) return list;
        list.resize(found->second.size() / sizeof(T));
        memcpy(list.data(), found->second.data(), found->second.size());
        return list;
    }
    template <typename T> T one(int name, T otherwise = T()) const {
        auto list = all<T>(name);
        return list.empty() ? otherwise : list[0];
    }
};
enum Kinds { CONFIGURATION = 3, HEURISTIC = 4, PLAN = 5, POINTWISE = 13, GRAPH = 15, PACK = 16, TENSOR = 17, MATMUL = 19, REDUCTION = 22, RESHAPE = 31 };

struct Values {
    std::vector<int64_t> sizes, strides;
    std::vector<double> dense;
    size_t count() const { size_t all = 1; for (int64_t size : sizes) all *= size; return all; }
};
static int64_t place(const std::vector<int64_t>& index, const std::vector<int64_t>& strides) {
    int64_t at = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * strides[axis];
    return at;
}
static void unravel(size_t number, const std::vector<int64_t>& sizes, std::vector<int64_t>& index) {
    for (size_t axis = sizes.size(); axis-- > 0;) { index[axis] = number % sizes[axis]; number /= sizes[axis]; }
}
// The element of `from` at an index of a larger tensor: sizes of 1 repeat, and heads are shared by groups.
static double spread(const Values& from, const std::vector<int64_t>& index, const std::vector<int64_t>& sizes) {
    size_t at = 0;
    for (size_t axis = 0; axis < from.sizes.size(); ++axis) {
        int64_t own = from.sizes[axis], shared = own ? sizes[axis] / own : 1;
        at = at * own + (shared > 1 ? index[axis] / shared : index[axis]);
    }
    return from.dense[at];
}

struct Evaluation {
    const Backend* graph;
    std::map<int64_t, char*> bound;
    std::map<const Backend*, Values> known;

    static int format(const Backend* tensor) {
        // The numbers of cuDNN's formats, as cuBLASLt's.
        switch (tensor->one<int>(901)) { case 2: return R_16F; case 9: return R_16BF; default: return R_32F; }
    }
    Values& read(const Backend* tensor) {
        auto found = known.find(tensor);
        if (found != known.end()) return found->second;
        Values& values = known[tensor];
        values.sizes = tensor->all<int64_t>(902), values.strides = tensor->all<int64_t>(903);
        values.dense.resize(values.count());
        char* base = bound[tensor->one<int64_t>(906)];
        std::vector<int64_t> index(values.sizes.size());
        for (size_t at = 0; at < values.dense.size(); ++at) {
            unravel(at, values.sizes, index);
            values.dense[at] = element(format(tensor), base, place(index, values.strides));
        }
        return values;
    }
    Values& fresh(const Backend* tensor) {
        Values& values = known[tensor];
        values.sizes = tensor->all<int64_t>(902), values.strides = tensor->all<int64_t>(903);
        values.dense.assign(values.count(), 0.0);
        return values;
    }
    void keep(const Backend* tensor) {
        if (tensor->one<char>(907)) return;
        Values& values = known[tensor];
        char* base = bound[tensor->one<int64_t>(906)];
        std::vector<int64_t> index(values.sizes.size());
        for (size_t at = 0; at < values.dense.size(); ++at) {
            unravel(at, values.sizes, index);
            put(format(tensor), base, place(index, values.strides), values.dense[at]);
        }
    }
    void multiply(const Backend* operation) {
        const Backend *left = operation->one<Backend*>(1520), *right = operation->one<Backend*>(1521), *out = operation->one<Backend*>(1522);
        const Values &a = read(left), &b = read(right);
        Values& c = fresh(out);
        int64_t heads = c.sizes[1], rows = c.sizes[2], columns = c.sizes[3], inner = a.sizes[3];
        for (int64_t batch = 0; batch < c.sizes[0]; ++batch)
            for (int64_t head = 0; head < heads; ++head) {
                const double* x = &a.dense[((batch * a.sizes[1]) + head / (heads / a.sizes[1])) * rows * inner];
                const double* y = &b.dense[((batch * b.sizes[1]) + head / (heads / b.sizes[1])) * inner * columns];
                double* z = &c.dense[(batch * heads + head) * rows * columns];
                for (int64_t row = 0; row < rows; ++row)
                    for (int64_t k = 0; k < inner; ++k) {
                        double factor = x[row * inner + k];
                        for (int64_t column = 0; column < columns; ++column) z[row * columns + column] += factor * y[k * columns + column];
                    }
            }
        keep(out);
    }
    void pointwise(const Backend* operation) {
        const Backend* function = operation->one<Backend*>(750);
        const Backend* out = operation->one<Backend*>(753);
        int mode = function->one<int>(0);
        int64_t axis = function->one<int64_t>(9);
        std::vector<Values*> inputs;
        for (int name : {751, 752, 758})
            if (Backend* input = operation->one<Backend*>(name)) inputs.push_back(&read(input));
        Values& result = fresh(out);
        std::vector<int64_t> index(4);
        for (size_t at = 0; at < result.dense.size(); ++at) {
            unravel(at, result.sizes, index);
            double x = spread(*inputs[0], index, result.sizes), y = inputs.size() > 1 ? spread(*inputs[1], index, result.sizes) : 0;
            double& value = result.dense[at];
            switch (mode) {
                case 0: value = x + y; break;
                case 1: value = x * y; break;
                case 6: value = x / y; break;
                case 9: value = x - y; break;
                case 13: value = exp(x); break;
                case 15: value = log(x); break;
                case 21: value = x; break;
                case 303: value = x >= y; break;
                case 501: value = index[axis]; break;
                case 601: value = spread(*inputs[2], index, result.sizes) != 0 ? x : y; break;
                default: abort();
            }
        }
        keep(out);
    }
    void reduce(const Backend* operation) {
        const Values& input = read(operation->one<Backend*>(1610));
        const Backend* out = operation->one<Backend*>(1611);
        bool most = operation->one<Backend*>(1612)->one<int>(1600) == 3;
        Values& result = fresh(out);
        if (most) result.dense.assign(result.dense.size(), -INFINITY);
        std::vector<int64_t> index(4);
        for (size_t at = 0; at < input.dense.size(); ++at) {
            unravel(at, input.sizes, index);
            size_t to = 0;
            for (int axis = 0; axis < 4; ++axis) to = to * result.sizes[axis] + index[axis] / (input.sizes[axis] / result.sizes[axis]);
            result.dense[to] = most ? std::max(result.dense[to], input.dense[at]) : result.dense[to] + input.dense[at];
        }
        keep(out);
    }
    // A transposed view has the same elements: its index in memory order is that of the input.
    void reshape(const Backend* operation) {
        const Backend *in = operation->one<Backend*>(2200), *out = operation->one<Backend*>(2201);
        const Values& input = read(in);
        Values& result = fresh(out);
        bool turned = input.sizes[2] == result.sizes[3] && input.sizes[3] == result.sizes[2];
        std::vector<int64_t> index(4);
        for (size_t at = 0; at < result.dense.size(); ++at) {
            unravel(at, result.sizes, index);
            if (turned) std::swap(index[2], index[3]);
            result.dense[at] = spread(input, index, input.sizes);
        }
        keep(out);
    }
    void run() {
        for (Backend* operation : graph->all<Backend*>(801)) switch (operation->kind) {
            case MATMUL: multiply(operation); break;
            case POINTWISE: pointwise(operation); break;
            case REDUCTION: reduce(operation); break;
            case RESHAPE: reshape(operation); break;
            default: abort();
        }
    }
};

static thread_local std::string last_error;
static int say(int status, const std::string& text) { last_error = text; return status; }
API size_t cudnnGetVersion() { return 91900; }
API int cudnnCreate(void** handle) {
    static std::atomic<long> created{0};
    *handle = (void*)(0x40 + 0x10 * created++);
    return fault("no_cudnn") ? say(1001, "the fake does not open") : 0;
}
API int cudnnDestroy(void*) { return 0; }
API int cudnnSetStream(void*, void*) { return 0; }
API void cudnnGetLastErrorString(char* text, size_t size) { snprintf(text, size, "%s", last_error.c_str()); }
API int cudnnBackendCreateDescriptor(int kind, Backend** made) { *made = new Backend(); (*made)->kind = kind; return 0; }
API int cudnnBackendDestroyDescriptor(Backend* made) { delete made; return 0; }
static size_t size_of(int type) {
    // Numbers of cudnnBackendAttributeType_t: pointers and 64-bit integers, one byte, else four.
    switch (type) { case 0: case 3: case 5: case 6: case 15: return 8; case 2: case 24: return 1; default: return 4; }
}
API int cudnnBackendSetAttribute(Backend* at, int name, int type, int64_t count, const void* data) {
    if (at->finalized) return say(BAD_PARAM, "finalized already");
    const char* bytes = (const char*)data;
    at->values[name].assign(bytes, bytes + count * size_of(type));
    return 0;
}
// What distinguishes an attention for a fault: the sizes of its first tensor, and how many operations it has.
static uint64_t shape_of(const Backend* graph) {
    uint64_t hash = graph->all<Backend*>(801).size();
    Backend* first = graph->all<Backend*>(801)[0];
    for (int name : {1520, 751}) if (Backend* tensor = first->one<Backend*>(name))
        for (int64_t size : tensor->all<int64_t>(902)) hash = hash * 1000003 + size;
    return hash;
}
API int cudnnBackendFinalize(Backend* at) {
    if (at->kind == PLAN) {
        note("plan");
        Backend* configuration = at->one<Backend*>(401);
        if (configuration->number < number_of("engines")) return say(NOT_SUPPORTED, "the engine does not finalize");
    }
    at->finalized = true;
    return 0;
}
API int cudnnBackendGetAttribute(Backend* at, int name, int type, int64_t room, int64_t* count, void* to) {
    if (at->kind == HEURISTIC && name == 202) {
        Backend* graph = at->one<Backend*>(201);
        bool refused = refuses("refuse_attention", shape_of(graph));
        *count = refused ? 0 : 3;
        if (room) for (int64_t number = 0; number < std::min(room, *count); ++number) {
            Backend* child = ((Backend**)to)[number];
            child->engine_of = graph, child->number = number, child->finalized = true;
        }
        return 0;
    }
    if (at->kind == PLAN && name == 402) { *count = 1; *(int64_t*)to = 1024; return 0; }
    if (at->kind == PLAN && name == 405) {
        std::string json = "{\"kernelName\":\"fake_flash_" + std::to_string(at->one<Backend*>(401)->number) + "\"}";
        *count = json.size() + 1;
        if (room) memcpy(to, json.c_str(), json.size() + 1);
        return 0;
    }
    return say(BAD_PARAM, "an attribute that the fake does not have");
}
API int cudnnBackendExecute(void* handle, Backend* plan, Backend* pack) {
    note("attention");
    if (fault("own_plans") && plan->one<void*>(400) != handle) return say(BAD_PARAM, "a plan of another handle");
    if (dead()) return say(EXECUTION_FAILED, "the device is lost");
    Backend* graph = plan->one<Backend*>(401)->engine_of;
    Evaluation evaluation{graph, {}, {}};
    auto numbers = pack->all<int64_t>(1000);
    auto addresses = pack->all<char*>(1001);
    for (size_t at = 0; at < numbers.size(); ++at) evaluation.bound[numbers[at]] = addresses[at];
    if ((uint64_t)pack->one<void*>(1003) % 256) return say(BAD_PARAM, "a workspace that is not aligned");
    // Long sequences are only there to keep a GPU busy.
    for (Backend* operation : graph->all<Backend*>(801))
        if (operation->kind == MATMUL) {
            auto sizes = operation->one<Backend*>(1522)->all<int64_t>(902);
            if (sizes[0] * sizes[1] * sizes[2] * sizes[3] > 4 << 20) return 0;
        }
    std::string which = "forward", mask;
    for (Backend* operation : graph->all<Backend*>(801)) {
        if (operation->kind == RESHAPE) which = "backward";
        if (operation->kind == POINTWISE && operation->one<Backend*>(750)->one<int>(0) == 501) mask = " causal";
    }
    if (fault("wrong_attention", which + mask)) return 0;
    enqueue([=] {
        // A replay reads its operands anew.
        Evaluation again = evaluation;
        again.run();
    });
    return 0;
}
