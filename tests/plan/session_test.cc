// Sessions over the fake device: which launches a plan becomes, their parameter bytes, and what is refused. Longer than
// most files because the tables of refusals are the test.
#include <cstring>
#include <ctime>

#include "tests/plan/fixtures.h"

namespace stepbench {
namespace {

using testing::FakeDevice;
using testing::one_launch;
using testing::open_plan;
using testing::Opened;
using testing::shapes;
using testing::small_task;
using testing::text_of;
using testing::vectors;

const HyperValues kHyper{{0.5, 7, 0.25}};  // lr, step, eps

void run(Opened& opened) {
  INFO(text_of(opened.failure));
  REQUIRE(opened.session);
  const Result<StepReport> report = run_step(*opened.session, kHyper, 1);
  REQUIRE(report.ok());
  INFO(text_of(report.value().failure));
  REQUIRE_FALSE(report.value().failure);
}

std::vector<int64_t> table(uint64_t address, size_t count) {
  const int64_t* values = FakeDevice::pointer<int64_t>(address);
  return {values, values + count};
}

TEST_CASE("every argument arrives in its place") {
  FakeDevice device;
  device.add_kernel("k", {"u8", "ptr", "i32", "ptr", "i64", "f32", "f64", "i32", "i64", "ptr", "bytes:12", "ptr", "f32",
                          "f64", "u8", "i64"});
  const std::string json = one_launch(
      "tensor",
      R"(true, "param", "rows", "grad", "n", "lr", "lr", "step", "step", "hyper", "hyper.value", "scratch.tmp + 8", "1.5f", 2.25, 255, -1)",
      "", R"("scratch": {"tmp": 64}, )");
  Opened opened = open_plan(device, json, shapes({{4, 6}, {3}}));
  run(opened);
  REQUIRE(device.launches.size() == 2);
  for (size_t t = 0; t < 2; ++t) {
    const FakeDevice::Recorded& launch = device.launches[t];
    const std::string suffix = t == 0 ? "[0]" : "[1]";
    CHECK(device.parameter<uint8_t>(launch, 0) == 1);
    CHECK(device.parameter<uint64_t>(launch, 1) == device.address_of("param" + suffix));
    CHECK(device.parameter<int32_t>(launch, 2) == (t == 0 ? 4 : 3));
    CHECK(device.parameter<uint64_t>(launch, 3) == device.address_of("grad" + suffix));
    CHECK(device.parameter<int64_t>(launch, 4) == (t == 0 ? 24 : 3));
    CHECK(device.parameter<float>(launch, 5) == 0.5f);
    CHECK(device.parameter<double>(launch, 6) == 0.5);
    CHECK(device.parameter<int32_t>(launch, 7) == 7);
    CHECK(device.parameter<int64_t>(launch, 8) == 7);
    CHECK(device.parameter<uint64_t>(launch, 9) == device.address_of("hyper"));
    struct Hyper {
      float lr;
      int32_t step;
      float eps;
    };
    const auto by_value = device.parameter<Hyper>(launch, 10);
    CHECK((by_value.lr == 0.5f && by_value.step == 7 && by_value.eps == 0.25f));
    const auto* by_pointer = FakeDevice::pointer<Hyper>(device.address_of("hyper"));
    CHECK((by_pointer->lr == 0.5f && by_pointer->step == 7 && by_pointer->eps == 0.25f));
    CHECK(device.parameter<uint64_t>(launch, 11) == device.address_of("scratch.tmp") + 8);
    CHECK(device.parameter<float>(launch, 12) == 1.5f);
    CHECK(device.parameter<double>(launch, 13) == 2.25);
    CHECK(device.parameter<uint8_t>(launch, 14) == 255);
    CHECK(device.parameter<int64_t>(launch, 15) == -1);
  }
}

TEST_CASE("tables hold the whole list, made only when used") {
  FakeDevice device;
  device.add_kernel("k", {"ptr", "ptr", "ptr", "ptr", "ptr", "i64", "i64"});
  Opened opened =
      open_plan(device, one_launch("step", R"("param[]", "n[]", "rows[]", "cols[]", "offset[]", "tensors", "total")"),
                shapes({{4, 6}, {0}, {5}}));
  run(opened);
  REQUIRE(device.launches.size() == 1);
  const auto& launch = device.launches[0];
  const auto at = [&](size_t i) { return device.parameter<uint64_t>(launch, i); };
  CHECK(table(at(0), 3) == std::vector<int64_t>{static_cast<int64_t>(device.address_of("param[0]")),
                                                static_cast<int64_t>(device.address_of("param[1]")),
                                                static_cast<int64_t>(device.address_of("param[2]"))});
  CHECK(table(at(1), 3) == std::vector<int64_t>{24, 0, 5});
  CHECK(table(at(2), 3) == std::vector<int64_t>{4, 0, 5});
  CHECK(table(at(3), 3) == std::vector<int64_t>{6, 1, 1});
  CHECK(table(at(4), 3) == std::vector<int64_t>{0, 24, 24});
  CHECK(at(5) == 3);
  CHECK(at(6) == 29);
  CHECK(device.find("param[]")->spec.read_only);
  CHECK(device.find("n[]")->spec.read_only);
  CHECK(device.find("grad[]") == nullptr);
}

TEST_CASE("shape launches get their group's tables and count") {
  FakeDevice device;
  device.add_kernel("k", {"ptr", "ptr", "i64", "i64", "i64", "ptr"});
  // Groups: {2x3: 0, 2}, {7: 1}, {3x2: 3}; prefix counts whole groups.
  Opened opened = open_plan(
      device,
      one_launch("shape", R"x("grad[]", "offset[]", "count", "rows", "index", "scratch.tmp + prefix(n * 4)")x", "",
                 R"x("scratch": {"tmp": "sum(n * 4)"}, )x"),
      shapes({{2, 3}, {7}, {2, 3}, {3, 2}}));
  run(opened);
  REQUIRE(device.launches.size() == 3);
  const auto at = [&](size_t launch, size_t i) { return device.parameter<uint64_t>(device.launches[launch], i); };
  CHECK(table(at(0, 0), 2) == std::vector<int64_t>{static_cast<int64_t>(device.address_of("grad[0]")),
                                                   static_cast<int64_t>(device.address_of("grad[2]"))});
  CHECK(table(at(0, 1), 2) == std::vector<int64_t>{0, 6});
  CHECK(table(at(1, 0), 1) == std::vector<int64_t>{static_cast<int64_t>(device.address_of("grad[1]"))});
  CHECK(table(at(2, 0), 1) == std::vector<int64_t>{static_cast<int64_t>(device.address_of("grad[3]"))});
  CHECK((at(0, 2) == 2 && at(1, 2) == 1 && at(2, 2) == 1));
  CHECK((at(0, 3) == 2 && at(1, 3) == 7 && at(2, 3) == 3));
  CHECK((at(0, 4) == 0 && at(1, 4) == 1 && at(2, 4) == 2));
  const uint64_t scratch = device.address_of("scratch.tmp");
  CHECK((at(0, 5) == scratch && at(1, 5) == scratch + 48 && at(2, 5) == scratch + 76));
}

TEST_CASE("groups repeat, nest and swap halves of scratch") {
  FakeDevice device;
  device.add_kernel("k", {"i64", "ptr", "ptr", "i64"});
  device.add_kernel("inner", {"i64"});
  device.add_kernel("after", {"ptr"});
  const std::string json = R"x({"task": "toy", "scratch": {"x": "2 * max(rows * cols) * 2"}, "launches": [
    {"for": "shape", "repeat": "1 + count", "launches": [
      {"kernel": "k", "block": 1, "args": ["iteration", "scratch.x + (iteration % 2) * rows*cols*2",
                                           "scratch.x + ((iteration + 1) % 2) * rows*cols*2", "n"]},
      {"launches": [{"repeat": 2, "launches": [{"kernel": "inner", "block": 1, "args": ["iteration"]}]},
                    {"kernel": "inner", "block": 1, "args": ["100 + iteration"]}]},
      {"for": "tensor", "kernel": "after", "block": 1, "args": ["param"]}]}]})x";
  Opened opened = open_plan(device, json, shapes({{2, 3}, {5}, {2, 3}}));
  run(opened);
  const uint64_t scratch = device.address_of("scratch.x");
  std::vector<std::string> seen;
  for (const auto& launch : device.launches) {
    if (launch.entry == "k") {
      const uint64_t from = device.parameter<uint64_t>(launch, 1) - scratch;
      const uint64_t to = device.parameter<uint64_t>(launch, 2) - scratch;
      seen.push_back("k" + std::to_string(device.parameter<int64_t>(launch, 0)) + " " + std::to_string(from) + ">" +
                     std::to_string(to));
    } else if (launch.entry == "inner") {
      seen.push_back("i" + std::to_string(device.parameter<int64_t>(launch, 0)));
    } else {
      for (const char* label : {"param[0]", "param[1]", "param[2]"})
        if (device.parameter<uint64_t>(launch, 0) == device.address_of(label)) seen.push_back(label);
    }
  }
  const std::vector<std::string> expected = {
      "k0 0>12",  "i0",      "i1", "i100", "param[0]", "param[2]", "k1 12>0",  "i0", "i1",   "i101",    "param[0]",
      "param[2]", "k2 0>12", "i0", "i1",   "i102",     "param[0]", "param[2]",  // 2x3, three times
      "k0 0>10",  "i0",      "i1", "i100", "param[1]", "k1 10>0",  "i0",       "i1", "i101", "param[1]"};  // 5, twice
  CHECK(seen == expected);
}

TEST_CASE("grid, block, cluster and shared memory") {
  FakeDevice device;
  device.add_kernel("k", {"i64"});
  device.device_info.sms = 66;
  const std::string json = R"x({"task": "toy", "defines": {"VEC": 4, "BLOCK": "64"}, "launches": [
    {"for": "tensor", "kernel": "k", "grid": ["2 * ceil_div(n, VEC*BLOCK)", "min(sms, 2)"], "block": ["BLOCK", 2, 1], "cluster": 2,
     "shared_bytes": "align(cols * 4, 128)", "args": ["n"]}]})x";
  Opened opened = open_plan(device, json, shapes({{10, 100}, {3}}));
  run(opened);
  REQUIRE(device.launches.size() == 2);
  CHECK(device.launches[0].grid == std::array<int64_t, 3>{8, 2, 1});
  CHECK(device.launches[0].block == std::array<int64_t, 3>{64, 2, 1});
  CHECK(device.launches[0].cluster == std::array<int64_t, 3>{2, 1, 1});
  CHECK(device.launches[0].shared_bytes == 512);
  CHECK(device.launches[1].grid == std::array<int64_t, 3>{2, 2, 1});
  CHECK(device.launches[1].shared_bytes == 128);
}

TEST_CASE("empty tensors are no work and hide no other") {
  struct Row {
    std::vector<int64_t> sizes;
    std::vector<int64_t> launched;
  };
  const Row rows[] = {{{7, 0}, {7}}, {{0, 7}, {7}}, {{0}, {}}, {{7, 0, 5}, {7, 5}}, {{}, {}}, {{0, 0, 0}, {}}};
  for (const Row& row : rows) {
    INFO("sizes " << Catch::StringMaker<std::vector<int64_t>>::convert(row.sizes));
    FakeDevice device;
    device.add_kernel("k", {"ptr", "i64"});
    // The block is zero for an empty tensor too: without work nothing else is asked.
    Opened opened =
        open_plan(device,
                  R"x({"task": "toy", "launches": [{"for": "tensor", "kernel": "k", "grid": "ceil_div(n, 256)",
                                  "block": "min(n, 256)", "args": ["param", "n"]}]})x",
                  vectors(row.sizes));
    run(opened);
    std::vector<int64_t> launched;
    for (const auto& launch : device.launches) launched.push_back(device.parameter<int64_t>(launch, 1));
    CHECK(launched == row.launched);
  }
}

TEST_CASE("limits name pointer, expression, value and limit") {
  struct Row {
    const char* name;
    const char* launch;  ///< keys after kernel and args
    const char* place;   ///< empty: opens
    std::vector<const char*> words;
    int64_t tensor;
  };
  const Row rows[] = {
      {"largest block", R"("block": 1024)", "", {}, -1},
      {"block of 1500", R"("block": "1500")", "/block", {"block x is 1500", "limit 1024", "`1500`"}, -1},
      {"threads together", R"("block": [64, 32])", "/block", {"2048 threads", "limit 1024", "`64, 32`"}, -1},
      {"block z", R"("block": [1, 1, 65])", "/block/2", {"block z is 65", "limit 64"}, -1},
      {"block of zero", R"("block": "4 - 4")", "/block", {"block x is 0", "less than 1", "`4 - 4`"}, -1},
      {"negative block", R"("block": [1, -1])", "/block/1", {"block y is -1"}, -1},
      {"negative grid", R"("block": 1, "grid": "3 - 4")", "/grid", {"grid x is -1", "less than 0", "`3 - 4`"}, -1},
      {"largest grid", R"("block": 1, "grid": [2147483647, 65535, 65535])", "", {}, -1},
      {"grid x", R"("block": 1, "grid": 2147483648)", "/grid", {"grid x is 2147483648", "limit 2147483647"}, -1},
      {"grid y", R"("block": 1, "grid": [1, 65536])", "/grid/1", {"grid y is 65536", "limit 65535"}, -1},
      {"shared", R"("block": 1, "shared_bytes": 232448)", "", {}, -1},
      {"300 KB of shared",
       R"("block": 1, "shared_bytes": "300 * 1024")",
       "/shared_bytes",
       {"307200", "limit 232448", "`300 * 1024`"},
       -1},
      {"negative shared", R"("block": 1, "shared_bytes": -4)", "/shared_bytes", {"is -4", "less than 0"}, -1},
      {"cluster", R"("block": 1, "grid": 8, "cluster": 8)", "", {}, -1},
      {"cluster of 16", R"("block": 1, "grid": 16, "cluster": 16)", "/cluster", {"cluster x is 16", "limit 8"}, -1},
      {"cluster together",
       R"("block": 1, "grid": [4, 4], "cluster": [4, 4])",
       "/cluster",
       {"16 blocks", "limit 8"},
       -1},
      {"cluster of zero", R"("block": 1, "cluster": 0)", "/cluster", {"cluster x is 0"}, -1},
      {"cluster and grid", R"("block": 1, "grid": 3, "cluster": 2)", "/cluster", {"does not divide the grid of 3"}, -1},
      {"zero division",
       R"x("block": 1, "grid": "4 / (2 - 2)")x",
       "/grid",
       {"column 3 of `4 / (2 - 2)`: division by zero"},
       -1},
      {"second tensor",
       R"("for": "tensor", "block": "n")",
       "/block",
       {"block x is 2000 for tensor 1", "limit 1024", "`n`"},
       1},
      {"division for the second",
       R"x("for": "tensor", "block": 1, "grid": "7 / (2000 - n)")x",
       "/grid",
       {"division by zero", "tensor 1"},
       1},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    FakeDevice device;
    device.add_kernel("k", {});
    const std::string json =
        R"({"task": "toy", "launches": [{"kernel": "k", "args": [], )" + std::string(row.launch) + "}]}";
    const Opened opened = open_plan(device, json, vectors({5, 2000}));
    INFO(text_of(opened.failure));
    CHECK(opened.failure.has_value() == (row.place[0] != '\0'));
    if (!opened.failure) continue;
    CHECK(opened.failure->verdict == Verdict::kBadCandidate);
    CHECK(opened.failure->place == "toy.cu: /launches/0" + std::string(row.place));
    CHECK(opened.failure->tensor == row.tensor);
    for (const char* word : row.words) CHECK_THAT(opened.failure->message, Catch::Contains(word));
    CHECK(device.live_buffers() == 0);
  }
}

TEST_CASE("limits of the compiled kernel") {
  const std::string json =
      R"({"task": "toy", "launches": [{"kernel": "k", "block": "BLOCK", "args": [], "shared_bytes": "S"}],
                              "defines": {"BLOCK": %B, "S": %S}})";
  const auto plan = [&](const std::string& block, const std::string& shared) {
    std::string text = json;
    text.replace(text.find("%B"), 2, block);
    text.replace(text.find("%S"), 2, shared);
    return text;
  };
  FakeDevice device;
  KernelInfo info;
  info.entry = "k";
  info.max_threads = 256;
  info.static_shared_bytes = 1024;
  device.add_kernel(info);
  CHECK_FALSE(open_plan(device, plan("256", "231424"), vectors({1})).failure);
  CHECK_THAT(text_of(open_plan(device, plan("257", "0"), vectors({1})).failure),
             Catch::Contains("257 threads, more than the 256"));
  CHECK_THAT(text_of(open_plan(device, plan("32", "231425"), vectors({1})).failure),
             Catch::Contains("231425") && Catch::Contains("static of 1024") && Catch::Contains("232448"));
  device.kernel_info("k").exact_threads = true;
  CHECK_FALSE(open_plan(device, plan("256", "0"), vectors({1})).failure);
  CHECK_THAT(text_of(open_plan(device, plan("128", "0"), vectors({1})).failure),
             Catch::Contains("requires exactly 256"));
  // 255 registers: 8160 per warp, given as 8192, so 8 warps take all 65536.
  device.kernel_info("k") = info;
  device.kernel_info("k").max_threads = 1024;
  CompiledModule compiled;
  compiled.entries["k"] = "k";
  compiled.resources.push_back({"k", 255});
  CHECK_FALSE(open_plan(device, plan("256", "0"), vectors({1}), small_task(), {}, compiled).failure);
  const Opened registers = open_plan(device, plan("1024", "0"), vectors({1}), small_task(), {}, compiled);
  CHECK_THAT(text_of(registers.failure), Catch::Contains("262144 registers") && Catch::Contains("limit 65536"));
}

TEST_CASE("repetitions and launches are bounded") {
  FakeDevice device;
  device.add_kernel("k", {});
  const auto group = [](const std::string& repeat, const std::string& inner) {
    return R"({"repeat": )" + repeat + R"(, "launches": [)" + inner + "]}";
  };
  const std::string launch = R"({"kernel": "k", "block": 1, "args": []})";
  const std::string empty = R"({"kernel": "k", "grid": 0, "block": 1, "args": []})";
  const auto plan = [](const std::string& entry) { return R"({"task": "toy", "launches": [)" + entry + "]}"; };
  struct Row {
    const char* name;
    std::string json;
    const char* message;  ///< empty: opens
    uint64_t launches;
  };
  const Row rows[] = {{"most", plan(group("100000", launch)), "", 100'000},
                      {"none", plan(group("0", launch)), "", 0},
                      {"negative", plan(group("-1", launch)), "repetitions is -1", 0},
                      {"too often", plan(group("100001", launch)), "limit 100000", 0},
                      {"absurd", plan(group("9007199254740992", launch)), "limit 100000", 0},
                      {"product", plan(group("1000", group("101", launch))), "more than 100000 launches", 0},
                      {"empty ones", plan(group("100000", group("100000", empty))), "more than 1000000", 0}};
  for (const Row& row : rows) {
    INFO(row.name);
    device.record_launches = false;
    device.launch_count = 0;
    Opened opened = open_plan(device, row.json, vectors({1}));
    INFO(text_of(opened.failure));
    CHECK(opened.failure.has_value() == (row.message[0] != '\0'));
    if (opened.failure)
      CHECK_THAT(opened.failure->message, Catch::Contains(row.message));
    else
      run(opened);
    CHECK(device.launch_count == row.launches);
  }
}

TEST_CASE("scratch sizes") {
  struct Row {
    const char* name;
    const char* scratch;
    const char* place;
    const char* message;
  };
  const Row rows[] = {{"sum", R"({"a": "sum(n) * 4"})", "", ""},
                      {"zero", R"({"a": 0})", "", ""},
                      {"negative", R"({"a": "4 - 8"})", "toy.cu: /scratch/a", "is -4"},
                      {"over 1 GiB", R"({"a": "1024 * 1024 * 1024 + 1"})", "toy.cu: /scratch/a", "limit 1073741824"},
                      {"overflow", R"({"a": "9007199254740992 * 4"})", "toy.cu: /scratch/a", "beyond 2^53"},
                      {"together", R"({"a": 536870912, "b": 536870913})", "toy.cu: /scratch/b", "together"}};
  for (const Row& row : rows) {
    INFO(row.name);
    FakeDevice device;
    device.add_kernel("k", {});
    const std::string json = R"({"task": "toy", "scratch": )" + std::string(row.scratch) +
                             R"(, "launches": [{"kernel": "k", "block": 1, "args": []}]})";
    const Opened opened = open_plan(device, json, vectors({3, 4}));
    INFO(text_of(opened.failure));
    CHECK(opened.failure.has_value() == (row.place[0] != '\0'));
    if (!opened.failure) continue;
    CHECK(opened.failure->place == row.place);
    CHECK_THAT(opened.failure->message, Catch::Contains(row.message));
  }
}

TEST_CASE("arguments that contradict the kernel") {
  struct Row {
    const char* name;
    const char* argument;
    const char* parameter;
    const char* message;  ///< empty: fits
  };
  const Row rows[] = {
      {"pointer", R"("param")", "ptr", ""},
      {"pointer in 4 bytes", R"("param")", "i32",
       "argument 1 (`param`) is a pointer (8 bytes), but kernel `k` declares a 4-byte integer"},
      {"pointer as double", R"("param")", "f64", "8-byte floating-point"},
      {"table in 4 bytes", R"("param[]")", "i32", "a pointer (8 bytes)"},
      {"hyper pointer in a struct", R"("hyper")", "bytes:12", "12-byte struct"},
      {"scratch as float", R"("scratch.tmp")", "f32", "4-byte floating-point"},
      {"size as int", R"("n")", "i32", ""},
      {"size in 2 bytes", R"("n")", "u16", ""},
      {"size in 1 byte", R"("n")", "u8",
       "argument 1 (`n`) is 300, more than its 8-bit parameter holds (-128 to 127): use a wider"},
      {"size as float", R"("n")", "f32", "is an integer, but kernel `k` declares a 4-byte floating-point"},
      {"product over 32 bits", R"("n * 10000000")", "i32", "is 3000000000, more than its 32-bit parameter holds"},
      {"product in 64 bits", R"("n * 10000000")", "i64", ""},
      {"unsigned literal", R"(4294967295)", "i32", ""},
      {"literal too large", R"(4294967296)", "i32", "use a 64-bit parameter"},
      {"least literal", R"(-2147483648)", "i32", ""},
      {"literal too small", R"(-2147483649)", "i32", "use a 64-bit parameter"},
      {"integer literal as float", R"(3)", "f32", ""},
      {"float literal as integer", R"(1.5)", "i32", "a floating-point number, but"},
      {"float literal", R"("1.5f")", "f64", ""},
      {"float literal too large", R"(1e300)", "f32", "a floating-point number, but"},
      {"the same as double", R"(1e300)", "f64", ""},
      {"boolean as float", R"(true)", "f32", "a boolean, but"},
      {"boolean", R"(false)", "u8", ""},
      {"hyper as float", R"("lr")", "f32", ""},
      {"hyper as double", R"("lr")", "f64", ""},
      {"hyper float as integer", R"("lr")", "i32", "a float hyperparameter, but"},
      {"hyper int", R"("step")", "i32", ""},
      {"hyper int as float", R"("step")", "f32", "an integer hyperparameter, but"},
      {"hyper int in 2 bytes", R"("step")", "u16", "an integer hyperparameter, but"},
      {"struct", R"("hyper.value")", "bytes:12", ""},
      {"struct of another size", R"("hyper.value")", "bytes:16",
       "the Hyper struct (12 bytes), but kernel `k` declares a 16-byte struct"},
      {"struct as pointer", R"("hyper.value")", "ptr", "the Hyper struct (12 bytes)"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    FakeDevice device;
    device.add_kernel("k", {row.parameter});
    const Opened opened =
        open_plan(device, one_launch("tensor", row.argument, "", R"("scratch": {"tmp": 64}, )"), vectors({300}));
    INFO(text_of(opened.failure));
    CHECK(opened.failure.has_value() == (row.message[0] != '\0'));
    if (!opened.failure) continue;
    CHECK(opened.failure->place == "toy.cu: /launches/0/args/0");
    CHECK_THAT(opened.failure->message, Catch::Contains(row.message));
  }
}

TEST_CASE("more than 2^31 elements need a 64-bit size, and no memory is taken to say so") {
  FakeDevice device;
  device.add_kernel("k", {"ptr", "i32"});
  const Opened opened =
      open_plan(device, one_launch("tensor", R"("param", "n")"), vectors({5, (int64_t{1} << 31) + 5}));
  REQUIRE(opened.failure);
  CHECK(opened.failure->place == "toy.cu: /launches/0/args/1");
  CHECK(opened.failure->tensor == 1);
  CHECK_THAT(opened.failure->message, Catch::Contains("2147483653") && Catch::Contains("use a 64-bit parameter"));
  CHECK(device.live_buffers() == 0);
}

TEST_CASE("counts of arguments, unknown kernels") {
  FakeDevice device;
  device.add_kernel("_Z1kPf", {"ptr", "i64"});
  CompiledModule compiled;
  compiled.entries["k<float>"] = "_Z1kPf";
  const auto plan = [](const std::string& kernel, const std::string& args) {
    return R"({"task": "toy", "launches": [{"for": "tensor", "kernel": ")" + kernel + R"(", "block": 1, "args": [)" +
           args + "]}]}";
  };
  Opened good = open_plan(device, plan("k<float>", R"("param", "n")"), vectors({4}), small_task(), {}, compiled);
  run(good);
  CHECK(device.launches.at(0).entry == "_Z1kPf");
  const Opened few = open_plan(device, plan("k<float>", R"("param")"), vectors({4}), small_task(), {}, compiled);
  CHECK(text_of(few.failure) ==
        "toy.cu: /launches/0/args: kernel `k<float>` has 2 parameters, the plan gives 1 arguments");
  const Opened none = open_plan(device, plan("k<floot>", R"("param", "n")"), vectors({4}), small_task(), {}, compiled);
  CHECK(text_of(none.failure) == "toy.cu: /launches/0/kernel: there is no kernel `k<floot>`, did you mean `k<float>`?");
  device.kernel_info("_Z1kPf").parameter_bytes = 40'000;
  const Opened large = open_plan(device, plan("k<float>", R"("param", "n")"), vectors({4}), small_task(), {}, compiled);
  CHECK_THAT(text_of(large.failure), Catch::Contains("40000 bytes of parameters, more than the limit 32764"));
}

TEST_CASE("offsets of pointers stay inside their buffer") {
  struct Row {
    const char* argument;
    const char* message;
  };
  const Row rows[] = {{R"("scratch.tmp + 64")", ""},
                      {R"("scratch.tmp + 65")", "points 65 bytes into a buffer of 64 bytes"},
                      {R"("scratch.tmp + 4 - 8")", "points -4 bytes"},
                      {R"("param + 4 * n")", ""},
                      {R"("param + 4 * n + 4")", "points 24 bytes into a buffer of 20 bytes"},
                      {R"("param[] + 8")", ""},
                      {R"("param[] + 9")", "points 9 bytes into a buffer of 8 bytes"},
                      {R"("hyper + 12")", ""},
                      {R"("hyper + 13")", "points 13 bytes"}};
  for (const Row& row : rows) {
    INFO(row.argument);
    FakeDevice device;
    device.add_kernel("k", {"ptr"});
    const Opened opened =
        open_plan(device, one_launch("tensor", row.argument, "", R"("scratch": {"tmp": 64}, )"), vectors({5}));
    INFO(text_of(opened.failure));
    CHECK(opened.failure.has_value() == (row.message[0] != '\0'));
    if (opened.failure) CHECK_THAT(opened.failure->message, Catch::Contains(row.message));
  }
}

TEST_CASE("buffers: roles, offsets, poison, reading and writing") {
  FakeDevice device;
  device.add_kernel("k", {});
  {
    Opened opened = open_plan(device, one_launch("step", "", "", R"("scratch": {"a": 16, "b": 16}, )"),
                              shapes({{4, 6}, {3}}), small_task(), {1, 0, 3});
    REQUIRE(opened.session);
    CHECK(device.find("param[0]")->spec.bytes == 96);
    CHECK(device.find("row_state[0]")->spec.bytes == 8);  // 4 rows of bf16
    CHECK_FALSE(device.find("param[0]")->spec.read_only);
    CHECK(device.find("grad[1]")->spec.read_only);
    CHECK(device.find("hyper")->spec.read_only);
    CHECK_FALSE(device.find("scratch.a")->spec.read_only);
    CHECK(device.address_of("param[1]") % 256 == 4);
    CHECK(device.address_of("grad[1]") % 256 == 0);
    CHECK(device.address_of("row_state[1]") % 256 == 6);
    CHECK(device.find("param[0]")->poisons == 1);
    CHECK(device.find("param[0]")->poison_seed != device.find("param[1]")->poison_seed);
    REQUIRE(run_step(*opened.session, kHyper, 10).ok());
    const uint64_t first = device.find("scratch.a")->poison_seed;
    CHECK(first != device.find("scratch.b")->poison_seed);
    REQUIRE(run_step(*opened.session, kHyper, 11).ok());
    CHECK(device.find("scratch.a")->poison_seed != first);
    CHECK(device.find("scratch.a")->poisons == 3);
    CHECK(device.find("param[0]")->poisons == 1);
    REQUIRE(run_step(*opened.session, kHyper, 10).ok());
    CHECK(device.find("scratch.a")->poison_seed == first);
    const float values[3] = {1, 2, 3};
    REQUIRE(write_tensor(*opened.session, 0, 1, std::as_bytes(std::span(values))).ok());
    float back[3] = {};
    REQUIRE(read_tensor(*opened.session, 0, 1, std::as_writable_bytes(std::span(back))).ok());
    CHECK((back[0] == 1 && back[1] == 2 && back[2] == 3));
  }
  CHECK(device.live_buffers() == 0);
  device.fail_allocation_at = 0;
  const Result<Judged<SessionPtr>> opened = open_session(
      device, ModuleId{1}, {}, testing::candidate_of(one_launch("step", "")), small_task(), vectors({3}), {});
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().code == ErrorCode::kResource);
}

TEST_CASE("a step runs the kernels in order with this step's hyperparameters") {
  FakeDevice device;
  const auto axpy = [](const LaunchSpec& spec, FakeDevice& fake) -> std::optional<Fault> {
    float* param = FakeDevice::pointer<float>(fake.parameter<uint64_t>(spec, 0));
    const float* grad = FakeDevice::pointer<float>(fake.parameter<uint64_t>(spec, 1));
    const auto n = fake.parameter<int64_t>(spec, 2);
    const auto lr = fake.parameter<float>(spec, 3);
    const float* hyper = FakeDevice::pointer<float>(fake.parameter<uint64_t>(spec, 4));
    for (int64_t i = 0; i < n; ++i) param[i] -= lr * grad[i] + hyper[2];
    return std::nullopt;
  };
  device.add_kernel("k", {"ptr", "ptr", "i64", "f32", "ptr"}, axpy);
  device.counters_per_launch.global_load_bytes = 100;
  Opened opened = open_plan(device, one_launch("tensor", R"("param", "grad", "n", "lr", "hyper")"), vectors({2, 1}));
  REQUIRE(opened.session);
  const float one[2] = {1, 1};
  for (int64_t t = 0; t < 2; ++t) {
    const size_t bytes = t == 0 ? 8 : 4;
    REQUIRE(write_tensor(*opened.session, 0, t, std::as_bytes(std::span(one)).first(bytes)).ok());
    REQUIRE(write_tensor(*opened.session, 1, t, std::as_bytes(std::span(one)).first(bytes)).ok());
  }
  const Result<StepReport> first = run_step(*opened.session, {{0.5, 1, 0.0}}, 1);
  REQUIRE(first.ok());
  CHECK(first.value().counters.launches == 2);
  CHECK(first.value().counters.global_load_bytes == 200);
  REQUIRE(run_step(*opened.session, {{0.25, 2, 0.125}}, 2).ok());
  float got[2] = {};
  REQUIRE(read_tensor(*opened.session, 0, 0, std::as_writable_bytes(std::span(got))).ok());
  CHECK(got[0] == 0.125f);  // 1 - 0.5 - (0.25 + 0.125)
  CHECK(got[1] == 0.125f);
}

TEST_CASE("a fault becomes a failure with its buffer, tensor and element") {
  struct Row {
    const char* name;
    const char* label;
    int64_t byte_offset;
    int32_t source_line;
    const char* buffer;
    int64_t tensor, element;
    const char* place;
  };
  const Row rows[] = {
      {"f32", "param[1]", 20, 12, "param", 1, 5, "toy.cu:12"},
      {"bf16", "row_state[0]", 6, 3, "row_state", 0, 3, "toy.cu:3"},
      {"before the start", "param[0]", -4, 12, "param", 0, -1, "toy.cu:12"},
      {"scratch", "scratch.tmp", 8, 12, "scratch.tmp", 0, -1, "toy.cu:12"},
      {"table", "param[] of shape 1", 8, 12, "param[] of shape 1", 0, -1, "toy.cu:12"},
      {"no buffer, no line", "", 0, 0, "", 0, -1, "toy.cu: /launches/0"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    FakeDevice device;
    device.add_kernel("k", {"ptr"}, [&](const LaunchSpec&, FakeDevice&) {
      Fault fault;
      fault.kind = FaultKind::kOutOfBounds;
      fault.message = "a store of 4 bytes past the end";
      fault.source_line = row.source_line;
      fault.ptx_line = 40;
      fault.block = {1, 0, 0};
      fault.thread = {31, 0, 0};
      fault.buffer = row.label;
      fault.byte_offset = row.byte_offset;
      return std::optional<Fault>(fault);
    });
    Opened opened = open_plan(device, one_launch("tensor", R"("param")"), vectors({5, 5}));
    const Result<StepReport> report = run_step(*opened.session, kHyper, 1);
    REQUIRE(report.ok());
    REQUIRE(report.value().failure);
    const Failure& failure = *report.value().failure;
    CHECK(device.launch_count == 1);  // stops at the first
    CHECK(report.value().counters.launches == 1);
    CHECK(failure.verdict == Verdict::kOutOfBounds);
    CHECK(failure.message == "a store of 4 bytes past the end");
    CHECK(failure.place == row.place);
    CHECK(failure.buffer == row.buffer);
    CHECK(failure.tensor == row.tensor);
    CHECK(failure.element == row.element);
    CHECK_THAT(failure.detail, Catch::Contains("block (1, 0, 0)") && Catch::Contains("thread (31, 0, 0)") &&
                                   Catch::Contains("PTX line 40"));
  }
}

TEST_CASE("the default plan") {
  const Result<Judged<Candidate>> parsed = parse_candidate("dir/toy.cu", "__global__ void k() {}", "", false, "toy");
  FakeDevice device;
  device.add_kernel("_Z1k", {"ptr", "ptr", "i64", "ptr"});
  CompiledModule compiled;
  const auto open = [&] {
    Result<Judged<SessionPtr>> opened =
        open_session(device, ModuleId{1}, compiled, *parsed.value().value, small_task(), vectors({257, 0, 3}), {});
    REQUIRE(opened.ok());
    return std::move(opened).value();
  };
  compiled.entries[""] = "_Z1k";
  {
    const Judged<SessionPtr> opened = open();
    INFO(text_of(opened.failure));
    REQUIRE(opened.ok());
    REQUIRE(run_step(**opened.value, kHyper, 1).ok());
    REQUIRE(device.launches.size() == 2);
    CHECK(device.launches[0].grid[0] == 2);
    CHECK(device.launches[0].block[0] == 256);
    CHECK(device.launches[1].grid[0] == 1);
    CHECK(device.parameter<int64_t>(device.launches[1], 2) == 3);
  }
  device.kernel_info("_Z1k").parameters.pop_back();
  CHECK_THAT(text_of(open().failure),
             Catch::Contains("dir/toy.cu (default plan): /launches/0/args") && Catch::Contains("has 3 parameters"));
  compiled.entries["other"] = "_Z5other";
  CHECK_THAT(text_of(open().failure), Catch::Contains("exactly one kernel, found 2"));
}

double ms_since(std::clock_t begin) { return 1000.0 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; }

TEST_CASE("thousands of tensors and steps are cheap") {
  // 8,193 tensors of one element and one of three (case A08).
  std::vector<TensorShape> list(8193, make_shape({1}));
  list.push_back(make_shape({3}));
  TaskSpec task = small_task();
  task.buffers.resize(1);
  FakeDevice device;
  device.record_launches = false;
  device.add_kernel("k", {"ptr", "i64", "ptr", "f32"});
  // Processor time, so that a busy machine does not fail the test.
  const std::clock_t begin = std::clock();
  Opened opened = open_plan(device,
                            R"x({"task": "toy", "scratch": {"x": "sum(align(n * 4, 16))"}, "launches": [
      {"for": "tensor", "kernel": "k", "grid": "ceil_div(n, 4 * 64) + sum(n) / total - 1", "block": "64",
       "args": ["param", "n", "scratch.x + prefix(align(n * 4, 16))", "lr"]},
      {"for": "tensor", "kernel": "k", "grid": "min(max(n), 1)", "block": "64", "args": ["param", "n", "param[]", "lr"]}]})x",
                            list, task);
  const double open_ms = ms_since(begin);
  run(opened);
  CHECK(device.launch_count == 2 * 8194);
  INFO("opened in " << open_ms << " ms");
#ifdef NDEBUG
  CHECK(open_ms < 100);
#endif
  // Many steps over a tiny list.
  FakeDevice tiny;
  tiny.record_launches = false;
  tiny.add_kernel("k", {"ptr", "i64", "f32"});
  Opened small = open_plan(tiny, one_launch("tensor", R"("param", "n", "lr")"), vectors({4}), task);
  const std::clock_t steps_begin = std::clock();
  for (uint64_t i = 0; i < 10'000; ++i) REQUIRE(run_step(*small.session, kHyper, i).ok());
  const double steps_ms = ms_since(steps_begin);
  INFO("10,000 steps in " << steps_ms << " ms");
#ifdef NDEBUG
  CHECK(steps_ms < 1000);
#endif
}

}  // namespace
}  // namespace stepbench
