// Text that goes into and comes out of the compiler: the scan of a source, the assembler's report, entries of PTX, the
// task's header.
#include "harness/fields.h"
#include "harness/headers.h"
#include "harness/nvrtc.h"
#include "tests/compile/support.h"

using namespace stepbench;

TEST_CASE("include lines are found as the preprocessor sees them") {
  struct Row {
    const char *name, *source, *found;
    int line;
  };
  const Row rows[] = {
      {"brackets", "#include <a.h>", "a.h", 1},
      {"quotes", "\n  #  include\t\"a/b.h\"  // c\n", "a/b.h", 2},
      {"digraph", "%:include <a.h>", "a.h", 1},
      {"splice in the word", "#incl\\\nude <a.h>", "a.h", 1},
      {"splice before it", "int x; \\\n\n#include <a.h>", "a.h", 3},
      {"comment in front", "/* a\n b */ #include <a.h>", "a.h", 1},
      {"comment between", "#/**/include/**/<a.h>", "a.h", 1},
      {"after a string with a comment mark", "const char* s = \"/*\";\n#include <a.h>", "a.h", 2},
      {"after a digit separator", "int x = 1'000; /* '\n*/\n#include <a.h>", "a.h", 3},
      {"after a quote character", "char c = '\"';\n#include <a.h>", "a.h", 2},
      {"after an apostrophe in an error line", "#error it's\n#include <a.h>", "a.h", 2},
      {"after a raw string", "auto s = R\"x(\n#include <no.h>\n)\" )x\";\n#include <a.h>", "a.h", 4},
      {"CRLF", "\r\n#include <a.h>\r\n", "a.h", 2},
      {"include_next", "#include_next <a.h>", "a.h", 1},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const SourceScan scan = scan_source(row.source);
      REQUIRE(scan.includes.size() == 1);
      CHECK(scan.includes[0].name == row.found);
      CHECK(scan.includes[0].line == row.line);
      CHECK_FALSE(scan.includes[0].computed);
    }
  }
  for (const char* source :
       {"// #include <a.h>", "/*\n#include <a.h>\n*/", "\"\\\n#include <a.h>\"", "int a = b #include <a.h>",
        "#includes <a.h>", "// \\\n#include <a.h>", "#define X #include <a.h>"}) {
    INFO(source);
    CHECK(scan_source(source).includes.empty());
  }
  CHECK(scan_source("#include H(x)").includes.at(0).computed);
  CHECK(scan_source("// __TIME__\nint a = my__TIME__;\n").clock_line == 0);
  CHECK(scan_source("\nconst char* a = \"__TIME__\" __DATE__;\n").clock_line == 2);
}

TEST_CASE("the list of headers admits no way around it") {
  for (const char* name :
       {"stepbench.cuh", "cstdint", "cuda_fp16.h", "cuda/std/array", "cub/block/block_reduce.cuh", "cuda/ptx"})
    CHECK(is_allowed_header(name));
  for (const char* name : {"", "/cuda_fp16.h", "cuda/std/", "cuda/std/../../etc", "./cuda_fp16.h", "cuda//std/array",
                           "cub/cub.cuh", "iostream", "cuda/std/a b", "cuda_fp16.h ", "CUDA_FP16.H", "nvrtc.h"})
    CHECK_FALSE(is_allowed_header(name));
}

TEST_CASE("headers are gathered under full names") {
  const Result<HeaderSet> own = collect_headers("", {"cmath", "cstdint"});
  REQUIRE(own.ok());
  CHECK(own.value().headers.size() == 2);
  CHECK_FALSE(collect_headers("", {"cuda_fp16.h"}).ok());
  const TempFolder folder;
  namespace fs = std::filesystem;
  fs::create_directories(folder.path + "/sub");
  fs::create_directories(folder.path + "/cccl/cuda");
  const auto put = [&](const std::string& name, const std::string& text) {
    FILE* file = std::fopen((folder.path + "/" + name).c_str(), "w");
    REQUIRE(file != nullptr);
    std::fputs(text.c_str(), file);
    std::fclose(file);
  };
  put("top.h", "#include \"sub/one.h\"\n# include <cuda/two>\n#include <nowhere.h>\n#include <stdint.h>\n");
  put("sub/one.h", "#include \"same.h\" // near\n#include \"../same.h\"\n#include \"../../../etc/passwd\"\n");
  put("sub/same.h", "near\n");
  put("same.h", "far\n");
  put("cccl/cuda/two", "#include \"../same.h\"\n#include <top.h>\n");
  const Result<HeaderSet> set = collect_headers(folder.path, {"top.h"});
  REQUIRE(set.ok());
  std::map<std::string, std::string> texts(set.value().headers.begin(), set.value().headers.end());
  CHECK(texts.size() == 6);
  CHECK(texts["top.h"] == "#include <sub/one.h>\n# include <cuda/two>\n#include <nowhere.h>\n#include <stdint.h>\n");
  CHECK(texts["sub/one.h"] == "#include <sub/same.h> // near\n#include <same.h>\n#include \"../../../etc/passwd\"\n");
  CHECK(texts["cuda/two"] == "#include <same.h>\n#include <top.h>\n");
  CHECK(texts.count("stdint.h") == 1);
}

TEST_CASE("the assembler's report is taken apart") {
  const std::string log =
      "mine.cu(3): warning #177-D: variable \"x\" was declared but never referenced\n"
      "ptxas info    : 48 bytes gmem, 8 bytes cmem[4]\n"
      "ptxas info    : Compiling entry function 'one' for 'sm_90a'\n"
      "ptxas info    : Function properties for one\n"
      "ptxas         .     32 bytes stack frame, 28 bytes spill stores, 24 bytes spill loads\n"
      "ptxas info    : Function properties for callee\n"
      "ptxas         .     99 bytes stack frame, 98 bytes spill stores, 97 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 512 bytes smem, 400 bytes cmem[0], 16 bytes cmem[2]\n"
      "ptxas info    : (C7508) Potential Performance Loss\n"
      "ptxas info    : Compiling entry function 'two' for 'sm_90a'\n"
      "ptxas info    : Function properties for two\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 0 barriers\n"
      "ptxas info    : Compile time = 1.364 ms\n";
  std::string rest;
  const std::vector<KernelResources> kernels = parse_resources(log, rest);
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].entry == "one");
  CHECK(kernels[0].registers == 255);
  CHECK(kernels[0].stack_bytes == 32);
  CHECK(kernels[0].spill_store_bytes == 28);
  CHECK(kernels[0].spill_load_bytes == 24);
  CHECK(kernels[0].shared_bytes == 512);
  CHECK(kernels[0].constant_bytes == 416);
  CHECK(kernels[1].entry == "two");
  CHECK(kernels[1].registers == 8);
  CHECK(kernels[1].shared_bytes == 0);
  CHECK(kernels[1].constant_bytes == -1);
  CHECK(rest ==
        "mine.cu(3): warning #177-D: variable \"x\" was declared but never referenced\n"
        "ptxas info    : (C7508) Potential Performance Loss\n");
}

TEST_CASE("entries of PTX text") {
  CHECK(ptx_entries("").empty());
  CHECK(ptx_entries(".entry").empty());
  CHECK(ptx_entries(".visible .entry a(\n)\n.weak .entry b()\n.entry _Z1cv ( )") ==
        std::vector<std::string>{"a", "b", "_Z1cv"});
  CHECK(ptx_entries("// .entry a\n/* .entry b */ .file 1 \".entry c\"\n.entry /* x */ d()") ==
        std::vector<std::string>{"d"});
}

TEST_CASE("fields survive a round trip, and cut ones are noticed") {
  FieldWriter writer;
  writer.number(1ull << 63);
  writer.text(std::string("a\0b", 3));
  writer.texts({"x", ""});
  writer.pairs({{"k", "v"}});
  const std::string bytes = writer.take();
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    FieldReader reader(std::string_view(bytes).substr(0, cut));
    const uint64_t number = reader.number();
    const std::string text = reader.text();
    const auto texts = reader.texts();
    const auto pairs = reader.pairs();
    CHECK(reader.at_end() == (cut == bytes.size()));
    if (cut < bytes.size()) continue;
    CHECK(number == 1ull << 63);
    CHECK(text == std::string("a\0b", 3));
    CHECK(texts == std::vector<std::string>{"x", ""});
    CHECK(pairs == std::vector<std::pair<std::string, std::string>>{{"k", "v"}});
  }
  // A length that promises more than there is costs nothing.
  const std::string lie(8, '\xFF');
  FieldReader liar(lie);
  CHECK(liar.texts().empty());
  CHECK_FALSE(liar.ok());
}

TEST_CASE("the task's header") {
  TaskSpec task = sample_task();
  BufferSpec odd;
  odd.name = "size";
  odd.dtype = DType::kI32;
  task.buffers.push_back(odd);
  const std::string text = task_header(task);
  for (const char* part :
       {"using param_t = float;", "using grad_t = float;", "using codes_t = uint8_t;", "using size_value_t = int32_t;",
        "  int step;", "  float lr;", "static_assert(sizeof(Hyper) == 12", "struct alignas(64) TensorMap {"})
    CHECK(has(text, part));
  CHECK(text.find("int step;") < text.find("float lr;"));
  CHECK_FALSE(has(text, "cuda_bf16.h"));
  CHECK(has(task_header(sample_task(DType::kBf16)), "#include <cuda_bf16.h>"));
  CHECK(has(task_header(sample_task(DType::kF16)), "using param_t = __half;"));
}

TEST_CASE("the task's header compiles, in every dtype, twice, beside other headers") {
  NEEDS_TOOLKIT();
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kU8, DType::kI32}) {
    const std::string source =
        "#include <stepbench.cuh>\n#include \"stepbench.cuh\"\n#include <cstdint>\n#include <cuda/std/cstdint>\n"
        "static_assert(sizeof(param_t) == " +
        std::to_string(dtype_bytes(dtype)) +
        ", \"\");\n"
        "extern \"C\" __global__ void k(param_t* p, const grad_t* g, codes_t* c, const Hyper* h, int64_t n) {\n"
        "  if (threadIdx.x < n) { p[0] = p[1]; c[0] = (codes_t)(h->step + g[0] * h->lr + h->eps); }\n}\n";
    CHECK(module_of(candidate(source, {"k"}), no_cache(), sample_task(dtype)).entries.at("k") == "k");
  }
  TaskSpec empty;
  empty.id = "empty";
  CHECK(module_of(candidate("#include <stepbench.cuh>\nextern \"C\" __global__ void k(Hyper h) {}\n", {"k"}),
                  no_cache(), empty)
            .entries.size() == 1);
}
