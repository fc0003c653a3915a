// The numbers of a "gemm" entry of a plan, and what one product reads and writes. Knows nothing of JSON or devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/device.h"
#include "harness/model.h"

namespace stepbench {

/// The expressions of an entry, in the order in which they are compiled and evaluated.
enum class GemmNumber : uint8_t {
  kM,
  kN,
  kK,
  kBatch,
  kTransposeA,
  kTransposeB,
  kStrideA,
  kStrideB,
  kStrideC,
  kStrideD,
};
inline constexpr size_t kGemmNumbers = 10;
inline constexpr int64_t kMaxGemmSize = (int64_t{1} << 31) - 1;  ///< of m, n, k and batch

struct GemmExpression {
  const char* key = "";  ///< in the plan's entry
  std::string text;
};
/// Strides that are not given are the size of one matrix.
std::array<GemmExpression, kGemmNumbers> gemm_expressions(const PlanGemm& gemm);

/// The operands of an entry, in the order of its arguments; c last, where there is one.
inline constexpr std::array<const char*, 4> kGemmOperands = {"a", "b", "d", "c"};
std::vector<std::string> gemm_arguments(const PlanGemm& gemm);

/// One number that is outside of its range.
struct GemmComplaint {
  GemmNumber number = GemmNumber::kM;
  std::string message;
};
/// Checks values in the order of GemmNumber.
std::optional<GemmComplaint> check_gemm_numbers(std::span<const int64_t> values);
/// No work: a size or the batch is 0.
bool is_empty_gemm(std::span<const int64_t> values);
/// Everything but the addresses.
GemmSpec make_gemm(const PlanGemm& gemm, std::span<const int64_t> values);

/// Bytes from an operand's address to the end of its last matrix; `operand` as in kGemmOperands.
uint64_t gemm_operand_bytes(const GemmSpec& spec, size_t operand);
const GemmOperand& gemm_operand(const GemmSpec& spec, size_t operand);
GemmOperand& gemm_operand(GemmSpec& spec, size_t operand);

}  // namespace stepbench
