// The closed lists as text: verdicts, dtypes, and the one mapping from device faults to verdicts.
#include "harness/stages.h"

namespace stepbench {

namespace {
constexpr std::string_view kVerdictNames[kVerdictCount] = {"passed",
                                                           "bad_candidate",
                                                           "compile_error",
                                                           "refused",
                                                           "launch_error",
                                                           "out_of_bounds",
                                                           "uninitialized_read",
                                                           "race",
                                                           "barrier_divergence",
                                                           "wrong_result",
                                                           "drift",
                                                           "nondeterministic",
                                                           "diverged_training",
                                                           "timeout",
                                                           "impossible_time",
                                                           "unsupported",
                                                           "harness_error"};
constexpr std::string_view kSpeedWords[] = {"faster", "slower", "same", "undecided"};  // order of SpeedWord
constexpr std::string_view kFloorWords[] = {"memory", "fp32", "tensor"};               // order of FloorBy
}  // namespace

std::string_view to_text(SpeedWord word) {
  const auto index = static_cast<size_t>(word);
  SB_ASSERT(index < std::size(kSpeedWords));
  return kSpeedWords[index];
}

std::optional<SpeedWord> speed_word_from_text(std::string_view text) {
  for (size_t i = 0; i < std::size(kSpeedWords); ++i)
    if (kSpeedWords[i] == text) return static_cast<SpeedWord>(i);
  return std::nullopt;
}

std::string_view to_text(FloorBy by) {
  const auto index = static_cast<size_t>(by);
  SB_ASSERT(index < std::size(kFloorWords));
  return kFloorWords[index];
}

std::optional<FloorBy> floor_by_from_text(std::string_view text) {
  for (size_t i = 0; i < std::size(kFloorWords); ++i)
    if (kFloorWords[i] == text) return static_cast<FloorBy>(i);
  return std::nullopt;
}

std::string_view to_text(Verdict verdict) {
  const auto index = static_cast<size_t>(verdict);
  SB_ASSERT(index < kVerdictCount);
  return kVerdictNames[index];
}

std::optional<Verdict> verdict_from_text(std::string_view text) {
  for (size_t i = 0; i < kVerdictCount; ++i)
    if (kVerdictNames[i] == text) return static_cast<Verdict>(i);
  return std::nullopt;
}

std::string_view to_text(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kBf16: return "bf16";
    case DType::kF16: return "f16";
    case DType::kU8: return "u8";
    case DType::kI32: return "i32";
    case DType::kI16: return "i16";
  }
  SB_ASSERT(false);
  return "";
}

uint32_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 4;
    case DType::kBf16: return 2;
    case DType::kF16: return 2;
    case DType::kU8: return 1;
    case DType::kI32: return 4;
    case DType::kI16: return 2;
  }
  SB_ASSERT(false);
  return 0;
}

Verdict verdict_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kOutOfBounds: return Verdict::kOutOfBounds;
    case FaultKind::kReadOnlyWrite: return Verdict::kOutOfBounds;
    case FaultKind::kMisaligned: return Verdict::kLaunchError;
    case FaultKind::kUninitializedRead: return Verdict::kUninitializedRead;
    case FaultKind::kRace: return Verdict::kRace;
    case FaultKind::kBarrierDivergence: return Verdict::kBarrierDivergence;
    case FaultKind::kBudget: return Verdict::kTimeout;
    case FaultKind::kDeadlock: return Verdict::kTimeout;
    case FaultKind::kTrap: return Verdict::kLaunchError;
    case FaultKind::kInvalidLaunch: return Verdict::kLaunchError;
    case FaultKind::kUnsupported: return Verdict::kUnsupported;
  }
  SB_ASSERT(false);
  return Verdict::kHarnessError;
}

}  // namespace stepbench
