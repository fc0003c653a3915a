// What the PTX tests share: reading the data files and building texts around a statement.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace ptx_test {

inline std::string read_data(const std::string& name) {
  std::ifstream file(std::string(STEPBENCH_TEST_FOLDER) + "/ptx/data/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline const std::string kHead = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// A kernel `k` with some registers (%p, %r, %rd, %f) and shared variable `tile`; `statements` start on line 7.
inline std::string kernel(const std::string& statements, const std::string& module_scope = "") {
  return kHead + module_scope + "\n.visible .entry k(.param .u64 k_param_0, .param .align 8 .b8 k_param_1[24]) {\n" +
         ".reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .f32 %f<16>; .shared .align 4 .b8 tile[64];\n" +
         statements + "\n}\n";
}

}  // namespace ptx_test
