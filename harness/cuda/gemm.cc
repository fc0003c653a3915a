// Products by cuBLASLt (see gemm.h). The library is column-major: a row-major d = op(a) op(b) is its transpose,
// op(b)^T op(a)^T, where a row-major matrix of r x c without gaps is a column-major one of c x r with leading dimension
// c. So b comes first, and transpositions stay as they are.
#include "harness/cuda/gemm.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <vector>

#include "harness/cuda/gpu.h"
#include "harness/nvrtc.h"

namespace stepbench::cuda {
namespace {

// Numbers of cublasLt.h, cublas_api.h and library_types.h.
constexpr int kStatusSuccess = 0, kStatusNotSupported = 15;
constexpr int kCompute32F = 68;  // CUBLAS_COMPUTE_32F: fp32 products and sums, no TF32
constexpr int kRealF32 = 0, kRealF16 = 2, kRealBf16 = 14;
constexpr int kDescTransposeA = 3, kDescTransposeB = 4;
constexpr int kOperationNone = 0, kOperationTranspose = 1;
constexpr int kLayoutBatchCount = 5, kLayoutBatchStride = 6;
constexpr int kPreferWorkspace = 1, kPreferReductions = 3, kPreferAlignmentA = 5, kPreferAlignmentB = 6,
              kPreferAlignmentC = 7, kPreferAlignmentD = 8;
// Partial sums of a product that is split along k are added in fp32 in the workspace, never in the output's type and
// never in place (CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE alone).
constexpr uint32_t kReduceInComputeType = 2;

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what NVIDIA recommends for Hopper
constexpr uint32_t kMostAlignment = 256;

constexpr const char* kAdvice = "set STEPBENCH_CUBLASLT to the library file of a CUDA toolkit";

struct Algorithm {
  uint64_t data[8] = {};
};
/// cublasLtMatmulHeuristicResult_t.
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes = 0;
  int status = 0;
  float waves = 0;
  int reserved[4] = {};
};
static_assert(sizeof(Heuristic) == 96);

int data_type(DType dtype) {
  SB_ASSERT(dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16);
  return dtype == DType::kF32 ? kRealF32 : dtype == DType::kBf16 ? kRealBf16 : kRealF16;
}
int64_t element_bytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

/// Largest power of two, 256 at most, that divides the addresses of all matrices of an operand.
uint32_t alignment_of(const GemmOperand& operand, int64_t batch, DType dtype) {
  uint64_t bits = operand.address | kMostAlignment;
  if (batch > 1) bits |= static_cast<uint64_t>(operand.stride * element_bytes(dtype));
  return static_cast<uint32_t>(bits & (~bits + 1));
}

bool adds(const GemmSpec& spec) { return spec.beta != 0; }
bool in_place(const GemmSpec& spec) { return adds(spec) && spec.c.address == spec.d.address; }

/// Bytes from the first matrix of an operand to the end of the last.
uint64_t extent_bytes(const GemmOperand& operand, int64_t elements, int64_t batch, DType dtype) {
  return static_cast<uint64_t>(((batch - 1) * operand.stride + elements) * element_bytes(dtype));
}

std::string find_library() {
  for (const std::string& folder : toolkit_folders({"lib64", "lib", "targets/x86_64-linux/lib"}))
    for (const char* name : {"/libcublasLt.so.13", "/libcublasLt.so.12"})
      if (void* library = ::dlopen((folder + name).c_str(), RTLD_LAZY | RTLD_LOCAL); library != nullptr)
        return folder + name;
  return "";
}

}  // namespace

struct Cublas {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  size_t (*version)() = nullptr;
  const char* (*status_name)(int status) = nullptr;
  int (*desc_create)(void** desc, int compute_type, int scale_type) = nullptr;
  int (*desc_destroy)(void* desc) = nullptr;
  int (*desc_set)(void* desc, int attribute, const void* value, size_t bytes) = nullptr;
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t cols, int64_t leading) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*layout_set)(void* layout, int attribute, const void* value, size_t bytes) = nullptr;
  int (*preference_create)(void** preference) = nullptr;
  int (*preference_destroy)(void* preference) = nullptr;
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes) = nullptr;
  int (*heuristic)(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int wanted,
                   Heuristic* results, int* found) = nullptr;
  int (*matmul)(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                const Algorithm* algorithm, void* workspace, size_t workspace_bytes, Stream stream) = nullptr;
};

/// Descriptions in the library's order: `first` is our b.
struct Gemm::Plan {
  explicit Plan(const Cublas& library) : cublas(library) {}
  ~Plan() {
    for (void* layout : {first, second, c, d})
      if (layout != nullptr) static_cast<void>(cublas.layout_destroy(layout));
    if (desc != nullptr) static_cast<void>(cublas.desc_destroy(desc));
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const Cublas& cublas;
  void* desc = nullptr;
  void* first = nullptr;
  void* second = nullptr;
  void* c = nullptr;
  void* d = nullptr;
  Algorithm algorithm;
};

Gemm::Gemm(Gpu& gpu) : gpu_(gpu), cublas_(std::make_unique<Cublas>()) {}

namespace {

Error unavailable(std::string message, std::string found) {
  return Error{ErrorCode::kUnavailable, std::move(message), "cublasLt", kAdvice, std::move(found)};
}

/// Opens the library and fills `calls`; gives the name that it was found by. It stays open for the life of the process,
/// as the driver does.
Result<std::string> open_library(Cublas& calls) {
  const char* set = std::getenv("STEPBENCH_CUBLASLT");
  const std::string path = set != nullptr && *set != '\0' ? set : find_library();
  void* library = nullptr;
  std::string found;
  for (const std::string& name : {path, std::string("libcublasLt.so.13"), std::string("libcublasLt.so.12")}) {
    if (library == nullptr && !name.empty()) {
      library = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
      found = name;
    }
    if (set != nullptr && *set != '\0') break;
  }
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return unavailable("there is no cuBLASLt on this machine", reason == nullptr ? "" : reason);
  }
  const char* missing = nullptr;
  const auto bind = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(::dlsym(library, name));
    if (call == nullptr && missing == nullptr) missing = name;
  };
  bind(calls.create, "cublasLtCreate");
  bind(calls.destroy, "cublasLtDestroy");
  bind(calls.version, "cublasLtGetVersion");
  bind(calls.status_name, "cublasLtGetStatusName");
  bind(calls.desc_create, "cublasLtMatmulDescCreate");
  bind(calls.desc_destroy, "cublasLtMatmulDescDestroy");
  bind(calls.desc_set, "cublasLtMatmulDescSetAttribute");
  bind(calls.layout_create, "cublasLtMatrixLayoutCreate");
  bind(calls.layout_destroy, "cublasLtMatrixLayoutDestroy");
  bind(calls.layout_set, "cublasLtMatrixLayoutSetAttribute");
  bind(calls.preference_create, "cublasLtMatmulPreferenceCreate");
  bind(calls.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  bind(calls.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  bind(calls.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  bind(calls.matmul, "cublasLtMatmul");
  if (missing != nullptr) return unavailable("the cuBLASLt of this machine lacks a call", missing);
  return found;
}

}  // namespace

Result<CublasInfo> find_cublas() {
  Cublas calls;
  const Result<std::string> library = open_library(calls);
  if (!library.ok()) return library.error();
  const size_t version = calls.version();  // 130000 is 13.0, 120804 is 12.8.4
  return CublasInfo{library.value(), fmt::format("{}.{}", version / 10000, version / 100 % 100)};
}

Result<std::unique_ptr<Gemm>> Gemm::open(Gpu& gpu) {
  std::unique_ptr<Gemm> gemm(new Gemm(gpu));
  Cublas& calls = *gemm->cublas_;
  if (const Result<std::string> library = open_library(calls); !library.ok()) return library.error();
  for (const auto& step : std::initializer_list<std::function<Result<void>()>>{
           [&] { return gpu.ready(); }, [&] { return gemm->check(calls.create(&gemm->handle_), "cublasLtCreate"); },
           [&] {
             return gpu.check(gpu.driver().allocate(&gemm->workspace_, kWorkspaceBytes), "cuMemAlloc",
                              "cuBLASLt workspace");
           }})
    if (const Result<void> done = step(); !done.ok()) return done.error();
  return gemm;
}

Gemm::~Gemm() {
  if (gpu_.lost() || !gpu_.ready().ok()) return;  // the process ends, and with it the context
  plans_.clear();
  if (handle_ != nullptr) static_cast<void>(cublas_->destroy(handle_));
  if (workspace_ != 0) static_cast<void>(gpu_.driver().free(workspace_));
}

size_t Gemm::version() const { return cublas_->version(); }

Result<void> Gemm::check(int status, const char* call) const {
  if (status == kStatusSuccess) return {};
  const char* name = cublas_->status_name(status);
  return Error{ErrorCode::kInternal, "cuBLASLt refused a call", call, "",
               name == nullptr ? fmt::format("status {}", status) : name};
}

Gemm::Key Gemm::key_of(const GemmSpec& s) {
  const bool batched = s.batch > 1;
  const auto stride = [&](const GemmOperand& operand) { return batched ? operand.stride : 0; };
  const auto c = [&](auto value) { return adds(s) ? value : decltype(value){}; };
  return {{s.m, s.n, s.k, s.batch, s.transpose_a, s.transpose_b, s.inputs, s.output},
          {stride(s.a), stride(s.b), c(stride(s.c)), stride(s.d)},
          {alignment_of(s.a, s.batch, s.inputs), alignment_of(s.b, s.batch, s.inputs),
           c(alignment_of(s.c, s.batch, s.output)), alignment_of(s.d, s.batch, s.output)},
          adds(s),
          in_place(s)};
}

Result<std::optional<Fault>> Gemm::choose(const GemmSpec& spec, Plan& plan) {
  const Cublas& calls = *cublas_;
  const auto layout = [&](void** made, DType dtype, int64_t rows, int64_t cols, const GemmOperand& operand) {
    Result<void> made_it = check(
        calls.layout_create(made, data_type(dtype), static_cast<uint64_t>(cols), static_cast<uint64_t>(rows), cols),
        "cublasLtMatrixLayoutCreate");
    const auto batch = static_cast<int32_t>(spec.batch);
    if (made_it.ok() && batch > 1)
      made_it =
          check(calls.layout_set(*made, kLayoutBatchCount, &batch, sizeof(batch)), "cublasLtMatrixLayoutSetAttribute");
    if (made_it.ok() && batch > 1)
      made_it = check(calls.layout_set(*made, kLayoutBatchStride, &operand.stride, sizeof(operand.stride)),
                      "cublasLtMatrixLayoutSetAttribute");
    return made_it;
  };
  const auto transpose = [&](int attribute, bool yes) {
    const int32_t operation = yes ? kOperationTranspose : kOperationNone;
    return check(calls.desc_set(plan.desc, attribute, &operation, sizeof(operation)), "cublasLtMatmulDescSetAttribute");
  };
  const GemmOperand& c = adds(spec) ? spec.c : spec.d;
  const auto [a_rows, a_cols] = spec.transpose_a ? std::pair(spec.k, spec.m) : std::pair(spec.m, spec.k);
  const auto [b_rows, b_cols] = spec.transpose_b ? std::pair(spec.n, spec.k) : std::pair(spec.k, spec.n);
  Result<void> done = check(calls.desc_create(&plan.desc, kCompute32F, kRealF32), "cublasLtMatmulDescCreate");
  if (done.ok()) done = transpose(kDescTransposeA, spec.transpose_b);
  if (done.ok()) done = transpose(kDescTransposeB, spec.transpose_a);
  if (done.ok()) done = layout(&plan.first, spec.inputs, b_rows, b_cols, spec.b);
  if (done.ok()) done = layout(&plan.second, spec.inputs, a_rows, a_cols, spec.a);
  if (done.ok()) done = layout(&plan.c, spec.output, spec.m, spec.n, c);
  if (done.ok()) done = layout(&plan.d, spec.output, spec.m, spec.n, spec.d);

  void* preference = nullptr;
  const auto prefer = [&](int attribute, auto value) {
    return check(calls.preference_set(preference, attribute, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  if (done.ok()) done = check(calls.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  if (done.ok()) done = prefer(kPreferWorkspace, static_cast<uint64_t>(kWorkspaceBytes));
  if (done.ok()) done = prefer(kPreferReductions, kReduceInComputeType);
  if (done.ok()) done = prefer(kPreferAlignmentA, alignment_of(spec.b, spec.batch, spec.inputs));
  if (done.ok()) done = prefer(kPreferAlignmentB, alignment_of(spec.a, spec.batch, spec.inputs));
  if (done.ok()) done = prefer(kPreferAlignmentC, alignment_of(c, spec.batch, spec.output));
  if (done.ok()) done = prefer(kPreferAlignmentD, alignment_of(spec.d, spec.batch, spec.output));
  Heuristic best;
  int found = 0, status = kStatusSuccess;
  if (done.ok())
    status = calls.heuristic(handle_, plan.desc, plan.first, plan.second, plan.c, plan.d, preference, 1, &best, &found);
  if (preference != nullptr) static_cast<void>(calls.preference_destroy(preference));
  if (!done.ok()) return done.error();
  if (status != kStatusSuccess && status != kStatusNotSupported)
    return check(status, "cublasLtMatmulAlgoGetHeuristic").error();
  if (status == kStatusNotSupported || found < 1 || best.status != kStatusSuccess) {
    Fault fault;
    fault.kind = FaultKind::kUnsupported;
    fault.message = fmt::format("cuBLASLt has no algorithm for a gemm of {} x {} x {} with these types and addresses",
                                spec.m, spec.n, spec.k);
    fault.kernel = "gemm";
    fault.thread_known = false;
    return std::optional<Fault>(std::move(fault));
  }
  plan.algorithm = best.algorithm;
  return std::optional<Fault>();
}

/// The product on memory that is given back afterwards: the same sizes, strides and alignments.
Result<void> Gemm::run_once(const GemmSpec& spec, const Plan& plan) {
  const Driver& driver = gpu_.driver();
  std::vector<Address> owned;
  const auto place = [&](GemmOperand& operand, int64_t elements, DType dtype) -> Result<void> {
    const uint32_t alignment = alignment_of(operand, spec.batch, dtype);
    const uint64_t bytes = extent_bytes(operand, elements, spec.batch, dtype);
    Address memory = 0;
    Result<void> done = gpu_.check(driver.allocate(&memory, bytes + kMostAlignment), "cuMemAlloc", "gemm warm-up");
    if (!done.ok()) return done;
    owned.push_back(memory);
    operand.address = memory + (alignment < kMostAlignment ? alignment : 0);
    return gpu_.check(driver.fill_u8(memory, 0, bytes + kMostAlignment), "cuMemsetD8", "gemm warm-up");
  };
  GemmSpec warm = spec;
  Result<void> done = place(warm.a, spec.m * spec.k, spec.inputs);
  if (done.ok()) done = place(warm.b, spec.k * spec.n, spec.inputs);
  if (done.ok()) done = place(warm.d, spec.m * spec.n, spec.output);
  if (done.ok() && adds(spec) && !in_place(spec)) done = place(warm.c, spec.m * spec.n, spec.output);
  if (in_place(spec)) warm.c = warm.d;
  if (done.ok()) done = call(warm, plan, nullptr);
  unsigned char byte = 0;  // a copy waits for what comes before it
  if (done.ok()) done = gpu_.check(driver.copy_to_host(&byte, warm.d.address, 1), "cuMemcpyDtoH", "gemm warm-up");
  for (const Address memory : owned) {
    const Result<void> freed = gpu_.check(driver.free(memory), "cuMemFree", "gemm warm-up");
    if (done.ok()) done = freed;
  }
  return done;
}

Result<void> Gemm::call(const GemmSpec& spec, const Plan& plan, Stream stream) {
  const auto at = [](const GemmOperand& operand) { return reinterpret_cast<void*>(operand.address); };
  const GemmOperand& c = adds(spec) ? spec.c : spec.d;
  return check(cublas_->matmul(handle_, plan.desc, &spec.alpha, at(spec.b), plan.first, at(spec.a), plan.second,
                               &spec.beta, at(c), plan.c, at(spec.d), plan.d, &plan.algorithm,
                               reinterpret_cast<void*>(workspace_), kWorkspaceBytes, stream),
               "cublasLtMatmul");
}

Result<std::optional<Fault>> Gemm::prepare(const GemmSpec& spec) {
  const Key key = key_of(spec);
  if (plans_.count(key) != 0) return std::optional<Fault>();
  auto plan = std::make_unique<Plan>(*cublas_);
  Result<std::optional<Fault>> chosen = choose(spec, *plan);
  if (!chosen.ok() || chosen.value()) return chosen;
  if (const Result<void> done = run_once(spec, *plan); !done.ok()) return done.error();
  plans_.emplace(key, std::move(plan));
  return std::optional<Fault>();
}

Result<void> Gemm::submit(const GemmSpec& spec, Stream stream) {
  const auto found = plans_.find(key_of(spec));
  SB_ASSERT(found != plans_.end());
  return call(spec, *found->second, stream);
}

}  // namespace stepbench::cuda
