// compile(): kernels found and not found, diagnostics, limits, bad input, what a machine without a compiler says.
#include <sys/stat.h>

#include <algorithm>

#include "tests/compile/support.h"

using namespace stepbench;

TEST_CASE("kernels are found however they are declared") {
  NEEDS_NVRTC();
  struct Row {
    const char *name, *source, *kernel, *entry;
  };
  // Entry names by the Itanium C++ ABI's mangling rules, written by hand.
  const Row rows[] = {
      {"extern C", "extern \"C\" __global__ void k(float* p) { *p = 1; }", "k", "k"},
      {"plain C++", "__global__ void k(float* p) { *p = 1; }", "k", "_Z1kPf"},
      {"template", "template <class T> __global__ void k(T* p) { *p = 1; }", "k<float>", "_Z1kIfEvPT_"},
      {"nested namespace", "namespace a { namespace b { __global__ void k(float* p) { *p = 1; } } }", "a::b::k",
       "_ZN1a1b1kEPf"},
      {"template with a value", "template <int N> __global__ void k(float* p) { *p = N; }", "k<(1 << 2)>",
       "_Z1kILi4EEvPf"},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const CompiledModule module = module_of(candidate(row.source, {row.kernel}));
      REQUIRE(module.entries.count(row.kernel) == 1);
      CHECK(module.entries.at(row.kernel) == row.entry);
      CHECK(has(module.ptx, row.entry));
      CHECK_FALSE(module.cubin.empty());
      CHECK(module.arch == "sm_90a");
      CHECK(has(module.compiler, "NVRTC "));
    }
  }
}

TEST_CASE("a misspelt kernel lists what is there and suggests the nearest") {
  NEEDS_NVRTC();
  const std::string source =
      "extern \"C\" __global__ void adamw_step(float* p) { *p = 1; }\n"
      "namespace opt { __global__ void other(float* p) { *p = 1; } }\n"
      "template <class T> __global__ void __launch_bounds__(256) generic(T* p) { *p = 1; }\n";
  const Failure failure = failure_of(candidate(source, {"adamw_step", "adamw_stp"}));
  CHECK(failure.verdict == Verdict::kBadCandidate);
  CHECK(failure.place == "/launches/1/kernel");
  CHECK(failure.check == "compile");
  CHECK(has(failure.message, "kernel \"adamw_stp\" not found"));
  CHECK(has(failure.message, "did you mean \"adamw_step\"?"));
  for (const char* name : {"adamw_step", "opt::other", "generic"}) CHECK(has(failure.message, name));
  // A function that is no kernel is not found either.
  CHECK(has(failure_of(candidate("__device__ float f(float x) { return x; }\n" + source, {"f"})).message,
            "kernel \"f\" not found"));
  // Control: spelt right.
  CHECK(module_of(candidate(source, {"adamw_step"})).entries.at("adamw_step") == "adamw_step");
}

TEST_CASE("without a plan the file must have exactly one kernel") {
  NEEDS_NVRTC();
  CHECK(module_of(candidate(kSimple)).entries == std::map<std::string, std::string>{{"", "simple"}});
  const Failure two = failure_of(candidate(std::string(kSimple) + "extern \"C\" __global__ void second() {}\n"));
  CHECK(two.verdict == Verdict::kBadCandidate);
  CHECK(has(two.message, "simple"));
  CHECK(has(two.message, "second"));
  CHECK(has(two.detail, "/*stepbench"));
  CHECK(has(two.detail, "\"args\": [\"param\", \"grad\", \"n\", \"hyper\"]"));
  const Failure none = failure_of(candidate("__device__ int f() { return 1; }\n"));
  CHECK(none.verdict == Verdict::kBadCandidate);
  CHECK(has(none.message, "no kernel"));
}

TEST_CASE("diagnostics carry the author's lines and nobody's folders") {
  NEEDS_NVRTC();
  Candidate code =
      candidate("extern \"C\" __global__ void k(float* p) {\n  *p = 1;\n  *p = undefined_name;\n}\n", {"k"});
  code.plan.defines = {{"VEC", "4"}, {"BLOCK", "256"}, {"LAST", "1 \\"}};
  const Failure failure = failure_of(code);
  CHECK(failure.verdict == Verdict::kCompileError);
  CHECK(failure.place == "mine.cu:3");
  CHECK(failure.message == "mine.cu:3: identifier \"undefined_name\" is undefined");
  CHECK(has(failure.detail, "mine.cu(3)"));
  CHECK_FALSE(has(failure.detail, "secret"));
  CHECK_FALSE(has(failure.detail, "candidate.cu"));
  code.source = "#line 1 \"/etc/passwd\"\nint broken broken;\nextern \"C\" __global__ void k() {}\n";
  CHECK_FALSE(has(failure_of(code).detail, "/etc/"));
}

TEST_CASE("what the assembler refuses is reported with the author's line") {
  NEEDS_NVRTC();
  const Failure failure = failure_of(candidate(
      "extern \"C\" __global__ void k(float* p) {\n  p[1] = 2;\n  asm volatile(\"bogus.op %0;\" :: \"f\"(p[0]));\n}\n",
      {"k"}));
  CHECK(failure.verdict == Verdict::kCompileError);
  CHECK(failure.place == "mine.cu:3");
  CHECK(has(failure.message, "ptxas"));
}

TEST_CASE("instructions of sm_90a are taken") {
  NEEDS_NVRTC();
  const CompiledModule module =
      module_of(candidate("extern \"C\" __global__ void __launch_bounds__(128) k() { asm "
                          "volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\"); }\n",
                          {"k"}));
  CHECK(has(module.ptx, ".target sm_90a"));
  CHECK(has(module.ptx, "setmaxnreg"));
}

TEST_CASE("defines stand in front of the source, even one named T") {
  NEEDS_NVRTC();
  Candidate code = candidate(
      "#include <stepbench.cuh>\nextern \"C\" __global__ void k(T* p, const Hyper* h) { *p = N * h->lr; }\n", {"k"});
  code.plan.defines = {{"T", "float"}, {"N", "4"}, {"size", "5"}};
  CHECK(module_of(code).entries.at("k") == "k");
}

TEST_CASE("defines do not reach into the toolkit's headers") {
  NEEDS_TOOLKIT();
  Candidate code = candidate(
      "#include <cuda_pipeline.h>\n#include <cuda_bf16.h>\n#include <mma.h>\n"
      "extern \"C\" __global__ void k(T* p) { *p = N; }\n",
      {"k"});
  code.plan.defines = {{"T", "float"}, {"N", "4"}};
  CHECK(module_of(code).entries.at("k") == "k");
}

TEST_CASE("resources come from the assembler's report") {
  NEEDS_NVRTC();
  const CompiledModule module = module_of(candidate(
      "extern \"C\" __global__ void k(float* p) {\n  __shared__ float s[128];\n  s[threadIdx.x] = p[threadIdx.x];\n"
      "  __syncthreads();\n  p[threadIdx.x] = s[127 - threadIdx.x];\n}\n",
      {"k"}));
  REQUIRE(module.resources.size() == 1);
  const KernelResources& kernel = module.resources[0];
  CHECK(kernel.entry == "k");
  CHECK(kernel.registers > 0);
  CHECK(kernel.registers <= 255);
  CHECK(kernel.shared_bytes == 512);
  CHECK(kernel.spill_store_bytes == 0);
  CHECK(kernel.spill_load_bytes == 0);
  CHECK(kernel.stack_bytes == 0);
  CHECK_FALSE(has(module.log, "ptxas info"));
}

TEST_CASE("PTX carries source lines") {
  NEEDS_NVRTC();
  Candidate code = candidate(kSimple, {"simple"});
  code.plan.defines = {{"VEC", "4"}};
  const CompiledModule module = module_of(code);
  CHECK(has(module.ptx, ".loc"));
  CHECK(has(module.ptx, "mine.cu"));
  CHECK_FALSE(has(module.ptx, "secret"));
}

TEST_CASE("headers on the list compile") {
  NEEDS_TOOLKIT();
  struct Row {
    const char *name, *source;
  };
  const Row rows[] = {
      {"half and bfloat",
       "#include <cuda_fp16.h>\n#include \"cuda_bf16.h\"\n"
       "extern \"C\" __global__ void k(__nv_bfloat16* p, __half* q) { p[0] = p[1] * p[2]; q[0] = q[1] + q[2]; }\n"},
      {"our small ones",
       "#include <stdint.h>\n#include <cstdint>\n#include <cmath>\n#include <climits>\n#include <cfloat>\n"
       "#include <cstddef>\n#include <cstdio>\n#include <cassert>\n"
       "extern \"C\" __global__ void k(float* p, uint64_t n, std::int32_t m, std::size_t s) {\n"
       "  p[0] = std::sqrt(p[1]) + std::fabs(p[2]) + FLT_MAX + INT_MAX + (float)n + m + s + INFINITY + M_PI;\n}\n"},
      {"cooperative groups",
       "#include <cooperative_groups.h>\n#include <cstdint>\nnamespace cg = cooperative_groups;\n"
       "extern \"C\" __global__ void k(float* p) { cg::this_thread_block().sync(); *p = 1; }\n"},
      {"libcu++",
       "#include <cuda/std/array>\n#include <cuda/std/cstdint>\n#include <cstdint>\n"
       "extern \"C\" __global__ void k(float* p) { cuda::std::array<float, 2> a{1, 2}; int64_t i = 1; *p = a[i]; }\n"},
      {"CUB",
       "#include <cub/block/block_reduce.cuh>\nextern \"C\" __global__ void k(float* p) {\n"
       "  using Reduce = cub::BlockReduce<float, 128>; __shared__ typename Reduce::TempStorage s;\n"
       "  const float sum = Reduce(s).Sum(p[threadIdx.x]); if (threadIdx.x == 0) *p = sum; }\n"},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) { CHECK(module_of(candidate(row.source, {"k"})).entries.at("k") == "k"); }
  }
}

TEST_CASE("half and bfloat headers compile quickly") {
  NEEDS_TOOLKIT();
  const Candidate code = candidate(
      "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
      "extern \"C\" __global__ void k(__nv_bfloat16* p) { p[0] = p[1] * p[2]; }\n",
      {"k"});
  double best_ms = 1e9;  // of several, because the machine may be busy with other things
  for (int i = 0; i < 3; ++i) best_ms = std::min(best_ms, module_of(code).compile_ms);
#if !defined(__SANITIZE_ADDRESS__)
  if (best_ms > 150) WARN("slow machine: " << best_ms << " ms");
#endif
  CHECK(best_ms < 3000);
}

TEST_CASE("source that is refused before or by the compiler") {
  NEEDS_NVRTC();
  struct Row {
    const char* name;
    std::string source;
    const char *message, *place;
  };
  using namespace std::string_literals;
  const std::string kernel = "extern \"C\" __global__ void k(float* p) { *p = 1; }\n";
  const Row rows[] = {
      {"host file", "// one\n#include \"/etc/hostname\"\n" + kernel, "header /etc/hostname is not on the list",
       "mine.cu:2"},
      {"digraph", "%:include \"/etc/hostname\"\n" + kernel, "/etc/hostname is not on the list", "mine.cu:1"},
      {"spliced", "#inc\\\nlude \"/etc/hostname\"\n" + kernel, "/etc/hostname is not on the list", "mine.cu:1"},
      {"comment inside", "# /* x */ include /*\n*/ <../../etc/hostname>\n" + kernel,
       "../../etc/hostname is not on the list", "mine.cu:1"},
      {"relative", "#include \"../../reference_kernels/adamw/fused.cu\"\n" + kernel, "is not on the list", "mine.cu:1"},
      {"device file", "#include </dev/zero>\n" + kernel, "/dev/zero is not on the list", "mine.cu:1"},
      {"macro", "#define H \"/etc/hostname\"\n#include H\n" + kernel, "must name its header", "mine.cu:2"},
      {"way out of an allowed folder", "#include <cuda/std/../../../../etc/hostname>\n" + kernel, "is not on the list",
       "mine.cu:1"},
      {"standard library", "#include <type_traits>\n" + kernel, "write <cuda/std/type_traits> instead", "mine.cu:1"},
      {"host header", "#include <iostream>\n" + kernel, "header iostream is not on the list", "mine.cu:1"},
      {"NUL byte", "//\n// a\0b\n"s + kernel, "NUL byte", "mine.cu:2"},
      {"clock macro", kernel + "__device__ const char* t() { return __TIME__; }\n", "__TIME__", "mine.cu:2"},
      {"recursion",
       "template <int N> struct F { static constexpr long v = F<N - 1>::v + 1; };\n"
       "template <> struct F<0> { static constexpr long v = 0; };\n"
       "extern \"C\" __global__ void k(long* p) { *p = F<1000000>::v; }\n",
       "recursion", "mine.cu:1"},
      {"not CUDA at all", "import torch\n", "mine.cu:1", "mine.cu:1"},
      {"unterminated comment", kernel + "/* ...", "mine.cu:2", "mine.cu:2"},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const Failure failure = failure_of(candidate(row.source, {"k"}));
      CHECK(failure.verdict == Verdict::kCompileError);
      CHECK(failure.place == row.place);
      INFO(failure.message);
      CHECK(has(failure.message, row.message));
      CHECK(failure.check == "compile");
    }
  }
  CHECK(module_of(candidate(kernel, {"k"})).entries.at("k") == "k");
}

TEST_CASE("source in odd encodings compiles") {
  NEEDS_NVRTC();
  struct Row {
    const char* name;
    std::string source;
  };
  const std::string kernel = "extern \"C\" __global__ void k(float* p) { *p = 1; }\n";
  const Row rows[] = {
      {"byte order mark", "\xEF\xBB\xBF" + kernel},
      {"CRLF", "// a\r\n#define X 1 \\\r\n  + 2\r\nextern \"C\" __global__ void k(float* p) {\r\n  *p = X;\r\n}\r\n"},
      {"byte 0xFF in a comment", "// \xFF\n" + kernel},
      {"Windows-1252 quotes in a comment", "// \x93quoted\x94\n" + kernel},
      {"no final line end", kernel.substr(0, kernel.size() - 1)},
      {"include in a comment and in a string", "// #include <iostream>\n/*\n#include <iostream>\n*/\n" + kernel +
                                                   "__device__ const char* s = \"\\\n#include <iostream>\";\n"},
      {"__has_include of a host file is false",
       "#if __has_include(\"/etc/passwd\") || __has_include(</etc/passwd>)\n#error seen\n#endif\n" + kernel},
      {"printf, which admission refuses later",
       "extern \"C\" __global__ void k(float* p) { printf(\"speedup 99 %f\\n\", *p); }\n"},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) { CHECK(module_of(candidate(row.source, {"k"})).entries.at("k") == "k"); }
  }
  // Broken bytes in an error message come out as valid UTF-8, without control characters.
  const Failure failure =
      failure_of(candidate("extern \"C\" __global__ void k(float* p) {\n  *p = \"\xFF\x1B[31m\x93\";\n}\n", {"k"}));
  CHECK(failure.place == "mine.cu:2");
  CHECK(has(failure.detail, "\xEF\xBF\xBD"));
  CHECK_FALSE(has(failure.detail, "\x1B"));
  CHECK_FALSE(has(failure.detail, "\xFF"));
  // CRLF keeps the lines.
  CHECK(failure_of(candidate("// a\r\n// b\r\nbroken broken;\r\n", {"k"})).place == "mine.cu:3");
}

TEST_CASE("compile options are taken from a list") {
  NEEDS_NVRTC();
  const auto with = [](std::vector<std::string> options) {
    Candidate code = candidate(kSimple, {"simple"});
    code.plan.options = std::move(options);
    return code;
  };
  const std::vector<std::string> allowed[] = {
      {"--fmad=false"},        {"-fmad=true", "--ftz=true", "--prec-div=false", "-prec-sqrt=false"},
      {"--use_fast_math"},     {"-use_fast_math", "--restrict"},
      {"--maxrregcount=64"},   {"-std=c++20"},
      {"--std=c++14"},         {"--extra-device-vectorization"},
      {"--ptxas-options=-O0"}, {"-Xptxas=-O3"}};
  for (const auto& options : allowed) {
    DYNAMIC_SECTION("allowed: " << options.front()) {
      const CompiledModule module = module_of(with(options));
      CHECK(module.entries.at("simple") == "simple");
      CHECK(module.log.empty());  // nothing was passed twice
    }
  }
  for (const char* option : {"--gpu-architecture=sm_75",
                             "-arch=sm_75",
                             "-I/etc",
                             "--include-path=/etc",
                             "-include=/etc/passwd",
                             "--pre-include=/etc/passwd",
                             "-DX=1",
                             "--define-macro=X",
                             "-default-device",
                             "--device-debug",
                             "-G",
                             "--pch-dir=/tmp",
                             "--fmad",
                             "--fmad=maybe",
                             "--maxrregcount=9999",
                             "--maxrregcount=6x4",
                             "--std=c++23",
                             "--ptxas-options=-v",
                             "--ptxas-options=--input=/etc/passwd",
                             "--restrict=1",
                             "",
                             "-",
                             "--",
                             "fmad=true",
                             "--time=/tmp/x"}) {
    DYNAMIC_SECTION("refused: " << option) {
      const Failure failure = failure_of(with({"--restrict", option}));
      CHECK(failure.verdict == Verdict::kBadCandidate);
      CHECK(failure.place == "/options/1");
      CHECK(has(failure.message, std::string("option \"") + option + "\""));
      CHECK(has(failure.message, "--maxrregcount="));
    }
  }
  CHECK(has(failure_of(with({"--fmad=true", "-fmad=false"})).message, "given twice"));
}

TEST_CASE("a compilation without end stops at its limit, and the next one works") {
  NEEDS_NVRTC();
  const std::string bomb =
      "template <int N, int M> struct F { static constexpr long v = F<N - 1, M * 2>::v + F<N - 1, M * 2 + 1>::v; };\n"
      "template <int M> struct F<0, M> { static constexpr long v = M; };\n"
      "extern \"C\" __global__ void k(long* p) { *p = F<24, 1>::v; }\n";
  CompileOptions options = no_cache();
  SECTION("CPU time") {
    options.cpu_limit_s = 1;
    const Failure failure = failure_of(candidate(bomb, {"k"}), options);
    CHECK(failure.verdict == Verdict::kTimeout);
    CHECK(failure.check == "compile");
    CHECK(has(failure.message, "more than 1 s of CPU time"));
  }
  SECTION("wall time") {
    options.wall_limit_s = 1;
    const Failure failure = failure_of(candidate(bomb, {"k"}), options);
    CHECK(failure.verdict == Verdict::kTimeout);
    CHECK(has(failure.message, "took more than 1 s"));
  }
#if !defined(__SANITIZE_ADDRESS__)  // which cannot run under a limit on address space
  SECTION("memory") {
    options.memory_limit_bytes = 400ull << 20;
    const Failure failure = failure_of(candidate(bomb, {"k"}), options);
    CHECK(failure.verdict == Verdict::kCompileError);
    CHECK(has(failure.message, "more than 400 MiB of memory"));
  }
#endif
  SECTION("size of the result") {
    options.output_limit_bytes = 1000;
    const Failure failure = failure_of(candidate(kSimple, {"simple"}), options);
    CHECK(failure.verdict == Verdict::kCompileError);
    CHECK(has(failure.message, "larger than"));
  }
  CHECK(module_of(candidate(kSimple, {"simple"})).entries.at("simple") == "simple");
}

TEST_CASE("an architecture that NVRTC does not know is the machine's fault") {
  NEEDS_NVRTC();
  CompileOptions options = no_cache();
  options.arch = "sm_999z";
  const Result<Judged<CompiledModule>> result = compile(candidate(kSimple, {"simple"}), sample_task(), options);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == ErrorCode::kUnavailable);
  CHECK(has(result.error().message, "sm_999z"));
}

TEST_CASE("without NVRTC the advice is given and PTX still passes") {
  const Variable hidden("STEPBENCH_NVRTC", "/nonexistent/libnvrtc.so.13");
  const Result<Judged<CompiledModule>> result = compile(candidate(kSimple, {"simple"}), sample_task(), no_cache());
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == ErrorCode::kUnavailable);
  for (const char* part : {"make deps", "STEPBENCH_NVRTC", ".ptx"}) CHECK(has(result.error().message, part));
  CHECK(find_compiler().error().code == ErrorCode::kUnavailable);

  Candidate code = candidate(
      "// .entry in_a_comment\n.version 8.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry first(.param .u64 p) { ret; }\n/* .entry no */ .weak .entry\n_Z6secondv() { ret; }\n",
      {"first", "_Z6secondv"});
  code.is_ptx = true;
  const CompiledModule module = module_of(code);
  CHECK(module.compiler == "none");
  CHECK(module.ptx == code.source);
  CHECK(module.cubin.empty());
  CHECK(module.entries.size() == 2);
  code.plan.launches[0].kernel = "in_a_comment";
  const Failure failure = failure_of(code);
  CHECK(failure.verdict == Verdict::kBadCandidate);
  CHECK(has(failure.message, "kernels present: first, second"));
}

TEST_CASE("a library that is no NVRTC is the machine's fault") {
  const Variable wrong("STEPBENCH_NVRTC", "/proc/self/exe");
  const Result<Judged<CompiledModule>> result = compile(candidate(kSimple, {"simple"}), sample_task(), no_cache());
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("hidden toolkit headers are the machine's fault, and matter only to who needs them") {
  NEEDS_NVRTC();
  const Variable hidden("STEPBENCH_CUDA_INCLUDE", "/nonexistent");
  const Candidate needs = candidate("#include <cuda_bf16.h>\nextern \"C\" __global__ void k() {}\n", {"k"});
  const Result<Judged<CompiledModule>> result = compile(needs, sample_task(), no_cache());
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == ErrorCode::kUnavailable);
  CHECK(has(result.error().message, "toolkit headers missing"));
  CHECK(module_of(candidate("#include <stepbench.cuh>\n#include <cmath>\nextern \"C\" __global__ void k() {}\n", {"k"}))
            .entries.size() == 1);
  // A bf16 task's header needs the toolkit.
  CHECK_FALSE(compile(candidate("#include <stepbench.cuh>\nextern \"C\" __global__ void k() {}\n", {"k"}),
                      sample_task(DType::kBf16), no_cache())
                  .ok());
}

TEST_CASE("a child that cannot start is the machine's fault") {
  NEEDS_NVRTC();
  const Variable broken("STEPBENCH_BINARY", "/bin/false");
  const Result<Judged<CompiledModule>> result = compile(candidate(kSimple, {"simple"}), sample_task(), no_cache());
  REQUIRE_FALSE(result.ok());
  const Variable gone("STEPBENCH_BINARY", "/nonexistent");
  CHECK(compile(candidate(kSimple, {"simple"}), sample_task(), no_cache()).error().code == ErrorCode::kIo);
}
