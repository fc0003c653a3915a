// Products of the harness's own on a GPU (PlanGemm): cuBLASLt by dlopen, with declarations of our own, for the calls
// and structures of its manual (12.0 and later). Sums are in fp32 for every type: no TF32, and no partial sums in a
// narrower type. The algorithm is the heuristic's first, so that the same product on the same library has the same
// bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "harness/cuda/driver.h"
#include "harness/device.h"

namespace stepbench::cuda {

class Gpu;
struct Cublas;  ///< the library's calls

/// The library on this machine; nothing is asked of a GPU.
struct CublasInfo {
  std::string library;  ///< file, or the name that the loader found
  std::string version;  ///< "13.0"
};
/// kUnavailable, with advice, where there is none or one that lacks a call.
Result<CublasInfo> find_cublas();

class Gemm {
 public:
  /// Finds and opens the library. kUnavailable, with advice, where there is none.
  static Result<std::unique_ptr<Gemm>> open(Gpu& gpu);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// Chooses the algorithm and runs it once on memory of its own, so that nothing is loaded, allocated or waited for
  /// when the product is submitted behind a gate or recorded as part of a graph. Does nothing for a product that is
  /// known already. A fault (`unsupported`) when the library has no algorithm for it.
  Result<std::optional<Fault>> prepare(const GemmSpec& spec);
  /// Puts a prepared product on the stream. All streams share one workspace: products must not run side by side.
  Result<void> submit(const GemmSpec& spec, Stream stream);
  /// Version of the library as it tells it: 130000 is 13.0.
  size_t version() const;

 private:
  struct Plan;
  /// Everything that the choice of an algorithm depends on: sizes, types, strides, alignments, and what c is.
  using Key = std::tuple<std::tuple<int64_t, int64_t, int64_t, int64_t, bool, bool, DType, DType>,
                         std::tuple<int64_t, int64_t, int64_t, int64_t>,
                         std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, bool, bool>;

  explicit Gemm(Gpu& gpu);
  static Key key_of(const GemmSpec& spec);
  Result<std::optional<Fault>> choose(const GemmSpec& spec, Plan& plan);
  Result<void> run_once(const GemmSpec& spec, const Plan& plan);
  Result<void> call(const GemmSpec& spec, const Plan& plan, Stream stream);
  Result<void> check(int status, const char* call) const;

  Gpu& gpu_;
  std::unique_ptr<Cublas> cublas_;
  void* handle_ = nullptr;
  Address workspace_ = 0;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace stepbench::cuda
