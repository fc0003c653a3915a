// Arguments that are tensor maps: both forms in a plan, every bad value with its message, and what the device is asked.
#include <fmt/format.h>

#include "harness/plan.h"
#include "tests/plan/fixtures.h"

namespace stepbench {
namespace {

using testing::candidate_of;
using testing::FakeDevice;
using testing::one_launch;
using testing::open_plan;
using testing::Opened;
using testing::shapes;
using testing::small_task;
using testing::text_of;
using testing::vectors;

std::string map_of(const std::string& members) { return R"({"tensor_map": {)" + members + "}}"; }

/// A plan of one launch per tensor with this map and the plain pointer, and 4096 bytes of scratch.
std::string plan_of(const std::string& argument) {
  return one_launch("tensor", argument + R"(, "param")", "", R"("defines": {"TILE": 64}, "scratch": {"tmp": 4096}, )");
}

FakeDevice& with_kernel(FakeDevice& device) {
  device.add_kernel("k", {"map", "ptr"});
  return device;
}

TEST_CASE("an object and its text are the same argument") {
  const std::string object = map_of(
      R"("of": "param", "dims": ["cols", "rows"], "strides_bytes": ["4 * cols"], "box": [32, "TILE / 4"], "swizzle": "128B")");
  const Candidate candidate = candidate_of(plan_of(object));
  const std::string& text = candidate.plan.launches.at(0).args.at(0);
  CHECK(
      text ==
      R"(tensor_map{"of":"param","dims":["cols","rows"],"strides_bytes":["4 * cols"],"box":[32,"TILE / 4"],"swizzle":"128B"})");
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\\\"") : std::string(1, c);
  CHECK(candidate_of(plan_of("\"" + quoted + "\"")).plan.launches.at(0).args.at(0) == text);
  CHECK_FALSE(validate_plan(candidate, small_task()));
}

TEST_CASE("tensor maps: what the plan's text gets wrong") {
  struct Row {
    const char* name;
    std::string argument;
    const char* pointer;  ///< behind /launches/0/args/0; null: allowed
    const char* message;
  };
  const std::string good = R"("of": "param", "dims": "n", "box": 64)";
  const Row rows[] = {
      {"least", map_of(good), nullptr, ""},
      {"everything",
       map_of(good + R"(, "dtype": "bf16", "element_strides": [1], "interleave": "none", "swizzle": "none",
        "l2": "256B", "oob": "nan", "at": "4 * index", "or_null": true, "strides_bytes": [])"),
       nullptr, ""},
      {"five dims", map_of(R"("of": "param", "dims": [4, 1, 1, 1, 1], "box": [4, 1, 1, 1, 1])"), nullptr, ""},
      {"not an object", R"({"tensor_map": 3})", "/tensor_map", "an object is expected, found an integer"},
      {"two keys", R"({"tensor_map": {)" + good + R"(}, "of": 1})", "/of", "unknown key `of`"},
      {"another object", R"({"map": 3})", "", "a {\"tensor_map\": ...} is expected, found an object"},
      {"a list", "[1]", "", "is expected, found a list"},
      {"unknown key", map_of(good + R"(, "swizle": "32B")"), "/tensor_map/swizle", "did you mean `swizzle`?"},
      {"no of", map_of(R"("dims": "n", "box": 64)"), "/tensor_map", "has no \"of\""},
      {"no dims", map_of(R"("of": "param", "box": 64)"), "/tensor_map", "has no \"dims\""},
      {"no box", map_of(R"("of": "param", "dims": "n")"), "/tensor_map", "has no \"box\""},
      {"no dims in the list", map_of(R"("of": "param", "dims": [], "box": [])"), "/tensor_map/dims",
       "1 to 5 dims are expected, found 0"},
      {"six dims", map_of(R"("of": "param", "dims": [1, 1, 1, 1, 1, 1], "box": [4, 1, 1, 1, 1, 1])"),
       "/tensor_map/dims", "1 to 5 dims are expected, found 6"},
      {"box too long", map_of(R"("of": "param", "dims": "n", "box": [64, 1])"), "/tensor_map/box",
       "1 numbers are expected for 1 dims, found 2"},
      {"strides too few", map_of(R"("of": "param", "dims": [4, 4, 4], "box": [4, 4, 4], "strides_bytes": [16])"),
       "/tensor_map/strides_bytes", "2 numbers are expected for 3 dims, found 1"},
      {"element strides", map_of(good + R"(, "element_strides": [1, 1])"), "/tensor_map/element_strides",
       "1 numbers are expected for 1 dims, found 2"},
      {"a box of text", map_of(R"("of": "param", "dims": ["n"], "box": [1.5])"), "/tensor_map/box/0",
       "an integer or a string with an expression is expected"},
      {"dtype", map_of(good + R"(, "dtype": "f64")"), "/tensor_map/dtype",
       "`f64` is not one of f32, bf16, f16, u8, i32, i16"},
      {"interleave", map_of(good + R"(, "interleave": "16B")"), "/tensor_map/interleave",
       "only `none` is offered, found `16B`"},
      {"swizzle", map_of(good + R"(, "swizzle": "256B")"), "/tensor_map/swizzle",
       "`256B` is not one of none, 32B, 64B, 128B"},
      {"l2", map_of(good + R"(, "l2": "32B")"), "/tensor_map/l2", "`32B` is not one of none, 64B, 128B, 256B"},
      {"oob", map_of(good + R"(, "oob": "one")"), "/tensor_map/oob", "`one` is not one of zero, nan"},
      {"or_null", map_of(good + R"(, "or_null": 1)"), "/tensor_map/or_null",
       "true or false is expected, found an integer"},
      // names and expressions
      {"of nothing", map_of(R"("of": "parm", "dims": "n", "box": 64)"), "",
       "a tensor map is of a buffer or of scratch.<name>, found `parm`, did you mean `param`?"},
      {"of no scratch", map_of(R"("of": "scratch.tpm", "dtype": "f32", "dims": "n", "box": 64)"), "",
       "did you mean `scratch.tmp`?"},
      {"of a hyperparameter", map_of(R"("of": "lr", "dims": "n", "box": 64)"), "", "found `lr`"},
      {"scratch without a type", map_of(R"("of": "scratch.tmp", "dims": "n", "box": 64)"), "",
       "the tensor map of `scratch.tmp` needs a \"dtype\": scratch is bytes"},
      {"scratch with one", map_of(R"("of": "scratch.tmp", "dtype": "u8", "dims": "n", "box": 64)"), nullptr, ""},
      {"NaN of integers", map_of(R"("of": "param", "dtype": "i32", "dims": "n", "box": 64, "oob": "nan")"), "",
       "\"oob\": \"nan\" is for f32, bf16 and f16; the tensor map of `param` is of i32"},
      {"expression of the dims", map_of(R"("of": "param", "dims": ["cols", "rws"], "box": [4, 1])"), "",
       "dims[1] of the tensor map of `param`: column 1 of `rws`: unknown name `rws`"},
      {"expression of the box", map_of(R"("of": "param", "dims": "n", "box": "TILE +")"), "",
       "box[0] of the tensor map of `param`: column 7 of `TILE +`"},
      {"expression of at", map_of(good + R"(, "at": "count")"), "",
       "at of the tensor map of `param`: column 1 of `count`"},
      // the text form
      {"text without the end", R"("tensor_map{\"of\": \"param\"")", "", "the `tensor_map{` is not closed by `}`"},
      {"text that is no JSON", R"("tensor_map{of: param}")", "", "the tensor map is wrong: no valid JSON: "},
      {"text with a wrong key", R"("tensor_map{\"of\": \"param\", \"dim\": 3}")", "",
       "the tensor map is wrong at /dim: unknown key `dim`, did you mean `dims`?"},
      {"text with a key twice", R"("tensor_map{\"of\": \"param\", \"of\": 3}")", "",
       "the tensor map is wrong at /of: the key `of` appears twice"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const Result<Judged<Candidate>> parsed = parse_candidate(
        "toy.cu", "/*stepbench " + plan_of(row.argument) + " */\n__global__ void k() {}\n", "", false, "");
    REQUIRE(parsed.ok());
    std::optional<Failure> failure = parsed.value().failure;
    if (!failure) failure = validate_plan(*parsed.value().value, small_task());
    INFO(text_of(failure));
    CHECK(failure.has_value() == (row.pointer != nullptr));
    if (!failure || row.pointer == nullptr) continue;
    CHECK(failure->verdict == Verdict::kBadCandidate);
    const std::string pointer = std::string(": /launches/0/args/0") + row.pointer;
    CHECK(failure->place.substr(failure->place.size() - std::min(failure->place.size(), pointer.size())) == pointer);
    CHECK_THAT(failure->message, Catch::Contains(row.message));
  }
}

TEST_CASE("tensor maps: numbers that no device is asked about") {
  struct Row {
    const char* name;
    std::string map;
    const char* message;  ///< empty: allowed
  };
  // One tensor of 24 rows and 40 columns: 3840 bytes of fp32. 4096 bytes of scratch.
  const auto param = [](const std::string& more) { return R"("of": "param", )" + more; };
  const auto scratch = [](const std::string& more) { return R"("of": "scratch.tmp", "dtype": "u8", )" + more; };
  const Row rows[] = {
      {"flat", param(R"("dims": "n", "box": 256)"), ""},
      {"two dims", param(R"("dims": ["cols", "rows"], "strides_bytes": ["4 * cols"], "box": [64, 24])"), ""},
      {"two dims without strides", param(R"("dims": ["cols", "rows"], "box": [64, 24])"), ""},
      {"box of 0", param(R"("dims": "n", "box": 0)"), "box[0] is 0, less than 1 (expression `0`)"},
      {"box of 257", param(R"("dims": ["cols", "rows"], "box": [4, "rows + 233"])"),
       "box[1] is 257, more than 256 (expression `rows + 233`)"},
      {"inner box of 12 bytes", param(R"("dims": "n", "box": 3)"),
       "box[0] is 3, 12 bytes of f32, which is not a multiple of 16 bytes (expression `3`)"},
      {"inner box of 16 bytes of u8", scratch(R"("dims": 100, "box": 16)"), ""},
      {"the same of f16", R"("of": "scratch.tmp", "dtype": "f16", "dims": 100, "box": 8)", ""},
      {"inner box of 8 bytes of f16", R"("of": "scratch.tmp", "dtype": "f16", "dims": 100, "box": 4)",
       "box[0] is 4, 8 bytes of f16, which"},
      {"swizzle as wide as the box", param(R"("dims": "n", "box": 32, "swizzle": "128B")"), ""},
      {"swizzle narrower than the box", param(R"("dims": "n", "box": 32, "swizzle": "64B")"),
       "box[0] is 32, 128 bytes of f32, more than the 64 bytes of the swizzle"},
      {"swizzle of 32 bytes", param(R"("dims": "n", "box": 12, "swizzle": "32B")"),
       "box[0] is 12, 48 bytes of f32, more than the 32 bytes of the swizzle"},
      {"inner element stride", param(R"("dims": "n", "box": 64, "element_strides": 2)"),
       "element_strides[0] is 2, more than 1"},
      {"element stride of 8", param(R"("dims": ["cols", "rows"], "box": [40, 24], "element_strides": [1, 8])"), ""},
      {"element stride of 9", param(R"("dims": ["cols", "rows"], "box": [40, 24], "element_strides": [1, 9])"),
       "element_strides[1] is 9, more than 8"},
      {"element stride of 0", param(R"("dims": ["cols", "rows"], "box": [40, 24], "element_strides": [1, 0])"),
       "element_strides[1] is 0, less than 1"},
      // 256 x 256 x 4 bytes are above 227 KiB; every second row of it is not.
      {"box beyond shared memory", param(R"("dims": ["cols", "rows"], "box": [256, 256])"),
       "one box is 262144 bytes, more than the 232448 of a block's shared memory"},
      {"half of its rows", param(R"("dims": ["cols", "rows"], "box": [256, 256], "element_strides": [1, 2])"), ""},
      {"no elements", param(R"("dims": ["cols - 40", "rows"], "strides_bytes": [160], "box": [4, 1])"),
       "dims[0] is 0, less than 1 (expression `cols - 40`); with \"or_null\": true the kernel gets a null map there"},
      {"fewer than none", param(R"("dims": ["cols", "0 - rows"], "box": [4, 1], "or_null": true)"),
       "dims[1] is -24, less than 1"},
      {"more than 2^32", scratch(R"("dims": "4294967297", "box": 16)"), "dims[0] is 4294967297, more than 4294967296"},
      {"stride not of 16", param(R"("dims": ["cols - 1", "rows"], "box": [4, 1])"),
       "strides_bytes[0] is 156, not a multiple of 16 bytes (expression `(cols - 1) * 4`); with \"or_null\""},
      {"stride of 0", param(R"("dims": ["cols", "rows"], "strides_bytes": [0], "box": [4, 1])"),
       "strides_bytes[0] is 0, less than 1"},
      {"stride below 0", param(R"("dims": ["cols", "rows"], "strides_bytes": [-160], "box": [4, 1])"),
       "strides_bytes[0] is -160, less than 1"},
      {"stride of 2^40", param(R"("dims": ["cols", 1], "strides_bytes": ["1099511627776"], "box": [4, 1])"),
       "strides_bytes[0] is 1099511627776, more than 1099511627760"},
      {"the largest stride", param(R"("dims": ["cols", 1], "strides_bytes": ["1099511627760"], "box": [4, 1])"), ""},
      {"one element too many", param(R"("dims": "n + 1", "box": 64)"),
       "it reaches to byte 3844 of a buffer of 3840 bytes"},
      {"one row too many", param(R"("dims": ["cols", "rows + 1"], "box": [4, 1])"),
       "it reaches to byte 4000 of a buffer of 3840 bytes"},
      {"rows too far apart", param(R"("dims": ["cols", "rows"], "strides_bytes": [176], "box": [4, 1])"),
       "it reaches to byte 4208 of a buffer of 3840 bytes"},
      {"a window of the columns",
       param(R"("dims": [8, "rows"], "strides_bytes": ["4 * cols"], "box": [4, 1], "at": 32)"), ""},
      {"a window beyond them", param(R"("dims": [12, "rows"], "strides_bytes": ["4 * cols"], "box": [4, 1], "at": 32)"),
       "it reaches to byte 3856 of a buffer of 3840 bytes"},
      {"begins below 0", param(R"("dims": 4, "box": 4, "at": "0 - 4")"), "at is -4, less than 0"},
      {"begins behind the end", param(R"("dims": 4, "box": 4, "at": "n + 4")"), "it reaches to byte 3872"},
      {"begins at the last four", param(R"("dims": 4, "box": 4, "at": "n - 4")"), ""},
      {"begins off 16 bytes", param(R"("dims": 4, "box": 4, "at": 5)"),
       "its address must be a multiple of 16, found one that is 4 bytes beyond; with \"or_null\": true"},
      {"far beyond 64 bits", param(R"("dims": [1, "4294967296", "4294967296", "4294967296", "4294967296"],
         "strides_bytes": ["1099511627760", "1099511627760", "1099511627760", "1099511627760"], "box": [4, 1, 1, 1, 1])"),
       "it reaches to byte 4611686018427387904 of a buffer of 3840 bytes"},
      {"all of scratch", scratch(R"("dims": [64, 64], "box": [64, 64])"), ""},
      {"more than scratch", scratch(R"("dims": [64, 65], "box": [64, 64])"),
       "it reaches to byte 4160 of a buffer of 4096"},
      {"overlapping rows", param(R"("dims": [40, 93], "strides_bytes": [16], "box": [4, 1])"), ""},
      // Null maps are for sizes, not for mistakes.
      {"or_null forgives no elements",
       param(R"("dims": ["cols - 40", "rows"], "strides_bytes": [160], "box": [4, 1], "or_null": true)"), ""},
      {"or_null forgives strides", param(R"("dims": ["cols - 1", "rows"], "box": [4, 1], "or_null": true)"), ""},
      {"or_null forgives addresses", param(R"("dims": 4, "box": 4, "at": 5, "or_null": true)"), ""},
      {"or_null forgives no reach", param(R"("dims": "n + 1", "box": 64, "or_null": true)"), "it reaches to byte 3844"},
      {"or_null forgives no box", param(R"("dims": "n", "box": 3, "or_null": true)"), "box[0] is 3"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    FakeDevice device;
    const Opened opened = open_plan(with_kernel(device), plan_of(map_of(row.map)), shapes({{24, 40}}));
    INFO(text_of(opened.failure));
    CHECK(opened.failure.has_value() == (row.message[0] != '\0'));
    if (!opened.failure) continue;
    CHECK(device.tensor_maps.empty());
    CHECK(opened.failure->verdict == Verdict::kBadCandidate);
    CHECK(opened.failure->place == "toy.cu: /launches/0/args/0");
    CHECK(opened.failure->tensor == 0);
    CHECK_THAT(opened.failure->message, Catch::StartsWith("argument 1, the tensor map of `") &&
                                            Catch::Contains(row.message) && Catch::Contains("(tensor 0)"));
  }
}

TEST_CASE("tensor maps: what the device is asked, for every tensor at its own address") {
  FakeDevice device;
  device.add_kernel("k", {"u8", "map", "map", "ptr"});
  const std::string json = one_launch(
      "tensor",
      "1, " + map_of(R"("of": "param", "dims": ["cols", "rows"], "box": [32, "BOX"], "element_strides": [1, 2],
                 "swizzle": "128B", "l2": "256B", "oob": "nan", "at": 40)") +
          ", " + map_of(R"("of": "scratch.tmp", "dtype": "bf16", "dims": "n", "box": 64, "at": "8 * index")") +
          R"(, "param")",
      "", R"("defines": {"BOX": 16}, "scratch": {"tmp": "max(n) * 2 + 16"}, )");
  // `at` skips a row that the dims would reach beyond, so the map is of one row less.
  std::string shorter = json;
  shorter.replace(shorter.find("\"rows\""), 6, "\"rows - 1\"");
  Opened opened = open_plan(device, shorter, shapes({{24, 40}, {4, 40}}));
  INFO(text_of(opened.failure));
  REQUIRE(opened.session);
  REQUIRE(device.tensor_maps.size() == 4);
  for (size_t t = 0; t < 2; ++t) {
    INFO("tensor " << t);
    const TensorMapSpec& map = device.tensor_maps[2 * t];
    CHECK(map.address == device.address_of(t == 0 ? "param[0]" : "param[1]") + 160);
    CHECK(map.dtype == DType::kF32);
    CHECK(map.rank == 2);
    CHECK(map.dims == std::array<uint64_t, 5>{40, t == 0 ? 23u : 3u, 0, 0, 0});
    CHECK(map.strides_bytes == std::array<uint64_t, 4>{160, 0, 0, 0});
    CHECK(map.box == std::array<uint32_t, 5>{32, 16, 0, 0, 0});
    CHECK(map.element_strides == std::array<uint32_t, 5>{1, 2, 1, 1, 1});
    CHECK(map.swizzle == TensorMapSwizzle::k128B);
    CHECK(map.l2 == TensorMapL2::k256B);
    CHECK(map.nan_outside);
    const TensorMapSpec& flat = device.tensor_maps[2 * t + 1];
    CHECK(flat.address == device.address_of("scratch.tmp") + 16 * t);
    CHECK(flat.dtype == DType::kBf16);
    CHECK(flat.rank == 1);
    CHECK(flat.dims[0] == (t == 0 ? 960u : 160u));
    CHECK(flat.box[0] == 64);
    CHECK(flat.swizzle == TensorMapSwizzle::kNone);
    CHECK_FALSE(flat.nan_outside);
  }
  // The bytes lie where the kernel declares its parameters, and are made once: a step asks for none.
  REQUIRE(run_step(*opened.session, HyperValues{{0.5, 3, 1}}, 1).ok());
  REQUIRE(run_step(*opened.session, HyperValues{{0.5, 4, 1}}, 2).ok());
  CHECK(device.tensor_maps.size() == 4);
  REQUIRE(device.launches.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    INFO("launch " << i);
    CHECK(device.parameter<uint8_t>(device.launches[i], 0) == 1);
    for (size_t m = 0; m < 2; ++m) {
      const auto bytes = device.parameter<TensorMapBytes>(device.launches[i], 1 + m);
      TensorMapBytes expected;
      expected.fill(static_cast<std::byte>(2 * (i % 2) + m + 1));
      CHECK(bytes == expected);
    }
    CHECK(device.parameter<uint64_t>(device.launches[i], 3) == device.address_of(i % 2 == 0 ? "param[0]" : "param[1]"));
  }
}

TEST_CASE("tensor maps: null where the pointers of a case are off") {
  struct Row {
    const char* name;
    int32_t offset;  ///< elements of param
    const char* more;
    bool null;
    const char* message;
  };
  const Row rows[] = {
      {"aligned", 0, "", false, ""},
      {"aligned, or null", 0, R"(, "or_null": true)", false, ""},
      {"off by one", 1, "", false, "its address must be a multiple of 16, found one that is 4 bytes beyond"},
      {"off by one, or null", 1, R"(, "or_null": true)", true, ""},
      {"off by four", 4, "", false, ""},
      {"off by one, made good", 1, R"(, "at": 3)", false, ""}};
  for (const Row& row : rows) {
    INFO(row.name);
    FakeDevice device;
    const std::string map = map_of(std::string(R"("of": "param", "dims": "n - 4", "box": 64)") + row.more);
    Opened opened = open_plan(with_kernel(device), plan_of(map), vectors({100}), small_task(), {row.offset, 0, 0});
    INFO(text_of(opened.failure));
    CHECK(opened.failure.has_value() == (row.message[0] != '\0'));
    if (opened.failure) {
      CHECK(opened.failure->verdict == Verdict::kBadCandidate);
      CHECK_THAT(opened.failure->message, Catch::Contains(row.message));
      continue;
    }
    REQUIRE(run_step(*opened.session, HyperValues{{0.5, 3, 1}}, 1).ok());
    const auto bytes = device.parameter<TensorMapBytes>(device.launches.at(0), 0);
    CHECK((bytes == TensorMapBytes{}) == row.null);
    CHECK(device.tensor_maps.size() == (row.null ? 0 : 1));
  }
}

TEST_CASE("tensor maps: a launch with an empty grid makes none") {
  FakeDevice device;
  device.add_kernel("k", {"map"});
  const std::string map = map_of(R"("of": "param", "dims": ["cols", "rows"], "box": [4, 1])");
  const std::string json =
      R"({"task": "toy", "launches": [{"for": "tensor", "kernel": "k", "grid": "cols % 4 == 0", "block": 32,
                           "args": [)" +
      map + "]}]}";
  const Opened opened = open_plan(device, json, shapes({{3, 40}, {3, 41}, {0, 40}}));
  REQUIRE(opened.failure);  // 0 x 40: the condition allows it
  CHECK(opened.failure->tensor == 2);
  CHECK_THAT(opened.failure->message, Catch::Contains("dims[1] is 0"));
  const Opened without = open_plan(device, json, shapes({{3, 40}, {3, 41}}));
  CHECK(without.session);
  REQUIRE(device.tensor_maps.size() == 1);
  CHECK(device.tensor_maps[0].dims[0] == 40);
}

TEST_CASE("tensor maps: what the device refuses, and what it cannot do") {
  FakeDevice device;
  with_kernel(device);
  const std::string json = plan_of(map_of(R"("of": "param", "dims": "n", "box": 64)"));
  device.tensor_map_error = Error{ErrorCode::kInvalidInput, "the driver refuses it: because", "", "", ""};
  const Opened opened = open_plan(device, json, vectors({64}));
  REQUIRE(opened.failure);
  CHECK(text_of(opened.failure) ==
        "toy.cu: /launches/0/args/0: argument 1, the tensor map of `param`: the driver refuses it: because (tensor 0)");
  device.tensor_map_error = Error{ErrorCode::kUnsupported, "the NVIDIA driver makes no tensor maps", "", "", ""};
  const Candidate candidate = candidate_of(json);
  const TaskSpec task = small_task();
  const std::vector<TensorShape> list = vectors({64});
  const Result<Judged<SessionPtr>> lacking = open_session(device, ModuleId{1}, {}, candidate, task, list, {});
  REQUIRE_FALSE(lacking.ok());
  CHECK(lacking.error().code == ErrorCode::kUnsupported);
  device.tensor_map_error.reset();
  CHECK(open_plan(device, json, vectors({64})).session);
}

TEST_CASE("tensor maps: the kernel's parameter") {
  struct Row {
    const char* name;
    KernelParameter parameter;
    const char* message;
  };
  const Row rows[] = {
      {"128 bytes at 64", {ScalarKind::kBytes, 0, 128, 64}, ""},
      {"128 bytes at 128", {ScalarKind::kBytes, 0, 128, 128}, ""},
      {"128 bytes at 8",
       {ScalarKind::kBytes, 0, 128, 8},
       "argument 1 is a tensor map, which is aligned to 64 bytes, but kernel `k` declares a struct aligned to 8 there"},
      {"64 bytes",
       {ScalarKind::kBytes, 0, 64, 64},
       "is a tensor map (128 bytes), but kernel `k` declares a 64-byte struct"},
      {"a pointer",
       {ScalarKind::kInteger, 0, 8, 8},
       "is a tensor map (128 bytes), but kernel `k` declares a 8-byte integer"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    FakeDevice device;
    KernelInfo info;
    info.entry = "k";
    info.parameters = {row.parameter};
    info.parameter_bytes = row.parameter.bytes;
    device.add_kernel(info);
    const Opened opened =
        open_plan(device, one_launch("tensor", map_of(R"("of": "param", "dims": "n", "box": 64)")), vectors({64}));
    INFO(text_of(opened.failure));
    CHECK(opened.failure.has_value() == (row.message[0] != '\0'));
    if (opened.failure) CHECK_THAT(opened.failure->message, Catch::Contains(row.message));
  }
}

TEST_CASE("tensor maps: a second session has maps of the shared buffers and of its own scratch") {
  FakeDevice device;
  with_kernel(device);
  const TaskSpec task = small_task();
  const std::vector<TensorShape> list = vectors({64, 32});
  const Candidate of_param = candidate_of(plan_of(map_of(R"("of": "param", "dims": "n", "box": 32)")));
  const Candidate of_scratch =
      candidate_of(plan_of(map_of(R"("of": "scratch.tmp", "dtype": "f32", "dims": "n", "box": 32)")));
  Result<Judged<SessionPtr>> first = open_session(device, ModuleId{1}, {}, of_param, task, list, {});
  REQUIRE(first.ok());
  REQUIRE(first.value().ok());
  for (const Candidate* second : {&of_param, &of_scratch}) {
    device.tensor_maps.clear();
    Result<Judged<SessionPtr>> over =
        open_session_over(**first.value().value, device, ModuleId{1}, {}, *second, task, list);
    REQUIRE(over.ok());
    REQUIRE(over.value().ok());
    REQUIRE(device.tensor_maps.size() == 2);
    for (size_t t = 0; t < 2; ++t) {
      const FakeDevice::Buffer* buffer = device.containing(device.tensor_maps[t].address);
      REQUIRE(buffer != nullptr);
      CHECK(buffer->spec.label == (second == &of_param ? fmt::format("param[{}]", t) : "scratch.tmp"));
    }
  }
}

}  // namespace
}  // namespace stepbench
