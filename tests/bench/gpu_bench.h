// The benchmarks that need a GPU are made at run time: which there are depends on the baselines in the tree.
#pragma once

namespace stepbench {

/// Registers one benchmark per baseline and list, or one that says that there is no GPU. Throws with the reason where a
/// GPU is there but a baseline cannot be read or compiled.
void add_gpu_benchmarks();

}  // namespace stepbench
