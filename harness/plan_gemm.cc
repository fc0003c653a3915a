// Numbers and extents of products in plans (see plan_gemm.h).
#include "harness/plan_gemm.h"

#include <fmt/format.h>

#include "harness/stages.h"

namespace stepbench {

std::array<GemmExpression, kGemmNumbers> gemm_expressions(const PlanGemm& gemm) {
  const auto stride = [](const std::string& given, const std::string& rows, const std::string& cols) {
    return given.empty() ? fmt::format("({}) * ({})", rows, cols) : given;
  };
  return {{{"m", gemm.m},
           {"n", gemm.n},
           {"k", gemm.k},
           {"batch", gemm.batch},
           {"transpose_a", gemm.transpose_a},
           {"transpose_b", gemm.transpose_b},
           {"stride_a", stride(gemm.stride_a, gemm.m, gemm.k)},
           {"stride_b", stride(gemm.stride_b, gemm.k, gemm.n)},
           {"stride_c", stride(gemm.stride_c, gemm.m, gemm.n)},
           {"stride_d", stride(gemm.stride_d, gemm.m, gemm.n)}}};
}

std::vector<std::string> gemm_arguments(const PlanGemm& gemm) {
  std::vector<std::string> arguments = {gemm.a, gemm.b, gemm.d};
  if (!gemm.c.empty()) arguments.push_back(gemm.c);
  return arguments;
}

std::optional<GemmComplaint> check_gemm_numbers(std::span<const int64_t> values) {
  SB_ASSERT(values.size() == kGemmNumbers);
  for (size_t i = 0; i < kGemmNumbers; ++i) {
    const auto number = static_cast<GemmNumber>(i);
    const bool size = number <= GemmNumber::kBatch;
    const bool flag = number == GemmNumber::kTransposeA || number == GemmNumber::kTransposeB;
    const int64_t most = size ? kMaxGemmSize : flag ? 1 : int64_t{1} << 53;
    if (values[i] < 0) return GemmComplaint{number, fmt::format("is {}, less than 0", values[i])};
    if (values[i] > most) return GemmComplaint{number, fmt::format("is {}, more than {}", values[i], most)};
  }
  const auto at = [&](GemmNumber number) { return values[static_cast<size_t>(number)]; };
  if (at(GemmNumber::kBatch) > 1 && at(GemmNumber::kStrideD) < at(GemmNumber::kM) * at(GemmNumber::kN))
    return GemmComplaint{GemmNumber::kStrideD,
                         fmt::format("is {}, less than the {} elements of one result: products would overwrite each "
                                     "other",
                                     at(GemmNumber::kStrideD), at(GemmNumber::kM) * at(GemmNumber::kN))};
  return std::nullopt;
}

bool is_empty_gemm(std::span<const int64_t> values) {
  return values[static_cast<size_t>(GemmNumber::kM)] == 0 || values[static_cast<size_t>(GemmNumber::kN)] == 0 ||
         values[static_cast<size_t>(GemmNumber::kK)] == 0 || values[static_cast<size_t>(GemmNumber::kBatch)] == 0;
}

GemmSpec make_gemm(const PlanGemm& gemm, std::span<const int64_t> values) {
  const auto at = [&](GemmNumber number) { return values[static_cast<size_t>(number)]; };
  GemmSpec spec;
  spec.m = at(GemmNumber::kM);
  spec.n = at(GemmNumber::kN);
  spec.k = at(GemmNumber::kK);
  spec.batch = at(GemmNumber::kBatch);
  spec.transpose_a = at(GemmNumber::kTransposeA) != 0;
  spec.transpose_b = at(GemmNumber::kTransposeB) != 0;
  spec.inputs = gemm.inputs;
  spec.output = gemm.output;
  spec.alpha = static_cast<float>(gemm.alpha);
  spec.beta = static_cast<float>(gemm.beta);
  spec.a.stride = at(GemmNumber::kStrideA);
  spec.b.stride = at(GemmNumber::kStrideB);
  spec.c.stride = at(GemmNumber::kStrideC);
  spec.d.stride = at(GemmNumber::kStrideD);
  return spec;
}

const GemmOperand& gemm_operand(const GemmSpec& spec, size_t operand) {
  return operand == 0 ? spec.a : operand == 1 ? spec.b : operand == 2 ? spec.d : spec.c;
}
GemmOperand& gemm_operand(GemmSpec& spec, size_t operand) {
  return operand == 0 ? spec.a : operand == 1 ? spec.b : operand == 2 ? spec.d : spec.c;
}

uint64_t gemm_operand_bytes(const GemmSpec& spec, size_t operand) {
  const int64_t elements = operand == 0 ? spec.m * spec.k : operand == 1 ? spec.k * spec.n : spec.m * spec.n;
  const uint32_t bytes = dtype_bytes(operand < 2 ? spec.inputs : spec.output);
  // Sizes are below 2^31, so one matrix fits 64 bits; a batch of them or its strides may not.
  const auto all = static_cast<unsigned __int128>(spec.batch - 1) *
                       static_cast<unsigned __int128>(gemm_operand(spec, operand).stride) +
                   static_cast<unsigned __int128>(elements);
  constexpr auto kMost = static_cast<unsigned __int128>(~uint64_t{0} / 8);
  return static_cast<uint64_t>(all > kMost ? kMost : all) * bytes;
}

}  // namespace stepbench
