// Products on the VM (see gemm.h). Sums run over k in ascending order, in fp32 with one rounding per operation: the
// same bits on every machine. A GPU sums in another order, so the two agree within the rounding of a sum of k terms
// only.
#include "harness/ptx_vm/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "harness/float_words.h"

namespace stepbench::vm {
namespace {

constexpr uint64_t kSectorBytes = 32;
constexpr uint64_t kLanesPerInstruction = 32;

/// IEEE binary16 -> float, exactly.
float from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // Subnormals too: the value of the pattern 13 bits up, at an exponent that is 112 too small.
  const float shifted = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) | sign);
}

float load(DType dtype, const std::byte* at) {
  if (dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, at, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, 2);
  if (dtype == DType::kF16) return from_f16(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

void store(DType dtype, float value, std::byte* at) {
  if (dtype == DType::kF32) {
    std::memcpy(at, &value, 4);
    return;
  }
  const uint16_t bits = dtype == DType::kF16 ? to_f16(value) : to_bf16(value);
  std::memcpy(at, &bits, 2);
}

/// One stored matrix of rows x cols.
struct Matrix {
  const char* name = "";
  DType dtype = DType::kF32;
  GemmOperand operand;
  int64_t rows = 0, cols = 0;

  uint64_t bytes() const { return static_cast<uint64_t>(rows * cols) * dtype_size(); }
  uint64_t dtype_size() const { return dtype == DType::kF32 ? 4 : 2; }
  uint64_t address(int64_t index) const {
    return operand.address + static_cast<uint64_t>(index * operand.stride) * dtype_size();
  }
};

Fault fault_in(const Matrix& matrix, FaultKind kind, std::string message, const Allocation* allocation,
               uint64_t address) {
  Fault fault;
  fault.kind = kind;
  fault.message = fmt::format("{} {} of the gemm", std::move(message), matrix.name);
  fault.kernel = "gemm";
  fault.thread_known = false;
  if (allocation != nullptr) {
    fault.buffer = allocation->label;
    fault.byte_offset = static_cast<int64_t>(address - allocation->lo);
  }
  return fault;
}

/// The allocation around the `index`-th matrix, or the fault of touching it.
Allocation* locate(AddressSpace& memory, const Matrix& matrix, int64_t index, bool write, LaunchReport& report) {
  const uint64_t address = matrix.address(index);
  Allocation* allocation = memory.find(address);
  if (allocation == nullptr || allocation->freed || matrix.bytes() > allocation->bytes - (address - allocation->lo)) {
    report.fault =
        fault_in(matrix, FaultKind::kOutOfBounds, "access outside of a buffer by", memory.nearest(address), address);
  } else if (write && allocation->read_only) {
    report.fault = fault_in(matrix, FaultKind::kReadOnlyWrite, "store to an input by", allocation, address);
  } else if (address % matrix.dtype_size() != 0) {
    report.fault = fault_in(matrix, FaultKind::kMisaligned, "misaligned address of", allocation, address);
  } else if (const uint64_t bit = address - allocation->bit_base;
             !write && !bits_set(allocation->initialised.data(), bit, matrix.bytes())) {
    uint64_t first = 0;
    while (bits_set(allocation->initialised.data(), bit + first, 1)) ++first;
    report.fault = fault_in(matrix, FaultKind::kUninitializedRead, "read of memory that nobody has written by",
                            allocation, address + first);
  }
  return report.fault ? nullptr : allocation;
}

/// The matrix in fp32, transposed when asked: rows x cols of what is returned are those of op(matrix).
std::vector<float> load_matrix(const Matrix& matrix, const Allocation& allocation, int64_t index, bool transpose) {
  const std::byte* from = allocation.host + (matrix.address(index) - allocation.lo);
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r)
    for (int64_t c = 0; c < matrix.cols; ++c)
      values[static_cast<size_t>(transpose ? c * matrix.rows + r : r * matrix.cols + c)] =
          load(matrix.dtype, from + static_cast<uint64_t>(r * matrix.cols + c) * matrix.dtype_size());
  return values;
}

void count(uint64_t bytes, uint64_t& total_bytes, uint64_t& total_sectors) {
  total_bytes += bytes;
  total_sectors += (bytes + kSectorBytes - 1) / kSectorBytes;
}

}  // namespace

LaunchReport run_gemm(AddressSpace& memory, const GemmSpec& spec, uint64_t budget) {
  LaunchReport report;
  report.counters.launches = 1;
  const Matrix a{"a", spec.inputs, spec.a, spec.transpose_a ? spec.k : spec.m, spec.transpose_a ? spec.m : spec.k};
  const Matrix b{"b", spec.inputs, spec.b, spec.transpose_b ? spec.n : spec.k, spec.transpose_b ? spec.k : spec.n};
  const Matrix c{"c", spec.output, spec.c, spec.m, spec.n};
  const Matrix d{"d", spec.output, spec.d, spec.m, spec.n};
  const bool adds = spec.beta != 0;
  const double multiply_adds = static_cast<double>(spec.m) * static_cast<double>(spec.n) * static_cast<double>(spec.k) *
                               static_cast<double>(spec.batch);
  if (multiply_adds / static_cast<double>(kLanesPerInstruction) > static_cast<double>(budget)) {
    Fault fault;
    fault.kind = FaultKind::kBudget;
    fault.message = fmt::format("the gemm has {:.0f} multiply-adds, more than {} for each of {} warp instructions",
                                multiply_adds, kLanesPerInstruction, budget);
    fault.kernel = "gemm";
    fault.thread_known = false;
    report.fault = std::move(fault);
    return report;
  }
  std::vector<float> sums(static_cast<size_t>(spec.n));
  for (int64_t index = 0; index < spec.batch; ++index) {
    const Allocation* in_a = locate(memory, a, index, false, report);
    const Allocation* in_b = in_a == nullptr ? nullptr : locate(memory, b, index, false, report);
    if (in_b == nullptr) return report;
    const Allocation* in_c = adds ? locate(memory, c, index, false, report) : nullptr;
    if (report.fault) return report;
    Allocation* in_d = locate(memory, d, index, true, report);
    if (in_d == nullptr) return report;
    const std::vector<float> left = load_matrix(a, *in_a, index, spec.transpose_a);
    const std::vector<float> right = load_matrix(b, *in_b, index, spec.transpose_b);
    const std::vector<float> added = adds ? load_matrix(c, *in_c, index, false) : std::vector<float>();
    std::byte* to = in_d->host + (d.address(index) - in_d->lo);
    for (int64_t row = 0; row < spec.m; ++row) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t inner = 0; inner < spec.k; ++inner) {
        const float factor = left[static_cast<size_t>(row * spec.k + inner)];
        const float* terms = right.data() + inner * spec.n;
        for (size_t col = 0; col < sums.size(); ++col) sums[col] += factor * terms[col];
      }
      for (size_t col = 0; col < sums.size(); ++col) {
        const size_t element = static_cast<size_t>(row * spec.n) + col;
        float value = spec.alpha * sums[col];
        if (adds) value += spec.beta * added[element];
        store(spec.output, value, to + element * d.dtype_size());
      }
    }
    set_bits(in_d->initialised.data(), d.address(index) - in_d->bit_base, d.bytes());
    count(a.bytes(), report.counters.global_load_bytes, report.counters.global_load_sectors);
    count(b.bytes(), report.counters.global_load_bytes, report.counters.global_load_sectors);
    if (adds) count(c.bytes(), report.counters.global_load_bytes, report.counters.global_load_sectors);
    count(d.bytes(), report.counters.global_store_bytes, report.counters.global_store_sectors);
  }
  return report;
}

}  // namespace stepbench::vm
