// What the GPU tests run in child processes: a fault ends a process's use of the GPU.
#pragma once

#include <string>
#include <vector>

#include "harness/child_process.h"

namespace stepbench::gpu_test {

/// One line per fact, "key value"; what the child did.
struct Outcome {
  ChildResult child;
  std::string get(const std::string& key) const;  ///< empty when not said
};

/// Starts this program again as `__gpu <arguments>`.
Outcome run_in_child(const std::vector<std::string>& arguments, double wall_limit_s);

/// The scenario "gemm" (gemm_scenario.cc): products on the GPU beside those of the host.
void multiply_matrices();

/// The scenarios "tensor_map boxes", "tensor_map input" and "tensor_map null" (tensor_map_scenario.cc).
void use_tensor_maps(const std::string& what);

/// The child's side: runs one scenario, prints its facts and leaves without the driver's cleaning up.
[[noreturn]] void scenario_main(const std::vector<std::string>& arguments);

}  // namespace stepbench::gpu_test
