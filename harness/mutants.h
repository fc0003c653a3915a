// Known-wrong and known-good kernels of a task: tasks/<id>/mutants.json, tasks/<id>/variants/ and
// reference_kernels/<id>/. Loading them only; running them is an evaluation like any other.
#pragma once

#include <string>
#include <vector>

#include "harness/model.h"
#include "harness/result.h"

namespace stepbench {

/// A kernel that is wrong on purpose.
struct Mutant {
  std::string name;
  std::string why;                ///< what is wrong, one sentence
  std::string path;               ///< of its own file, or of the base kernel it is an edit of
  std::string find, replace;      ///< the edit; both empty when it is a file of its own
  std::vector<Verdict> verdicts;  ///< any of these is right
  std::string buffer;             ///< buffer that the failure must name; empty = any or none
  std::string source;             ///< the finished text
};

/// A kernel that must pass.
struct Variant {
  std::string name;          ///< "variants/torch_order", "reference_kernels/float4"
  std::string path;          ///< absolute; .cu, or .ptx with a .json beside it
  bool is_baseline = false;  ///< from reference_kernels/
};

/// In file order. kInvalidTask with JSON pointer: unknown key or verdict, a base that does not exist, a `find` that
/// does not stand exactly once in the base, two mutants of one name.
Result<std::vector<Mutant>> load_mutants(const TaskSpec& task);

/// Baselines first, each sorted by name. A task without any is kInvalidTask.
Result<std::vector<Variant>> load_variants(const TaskSpec& task);

}  // namespace stepbench
