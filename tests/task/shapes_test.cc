// Tensor lists against published totals, literal lists, divisors, and the expansion of case groups.
#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "harness/stages.h"

namespace stepbench {
namespace {

int64_t sum_of(const std::vector<TensorShape>& shapes) {
  int64_t sum = 0;
  for (const TensorShape& shape : shapes) {
    int64_t n = 1;
    for (const int64_t dim : shape.dims) n *= dim;
    REQUIRE(shape.n == n);
    REQUIRE(shape.rows * shape.cols == n);
    sum += n;
  }
  return sum;
}

std::vector<TensorShape> list(const std::string& name) {
  const Result<std::vector<TensorShape>> shapes = tensor_list(name);
  if (!shapes.ok()) FAIL(to_text(shapes.error()));
  return shapes.value();
}

struct Inventory {
  const char* name;
  size_t tensors;
  int64_t params;
  /// How often some shapes occur, counted by hand from the published configuration.
  std::map<std::vector<int64_t>, int> counts;
};

// Totals as the model cards and papers give them (GPT-2: 124,439,808; ResNet-50: 25,557,032; ViT-B/16: 86,567,656 ...).
const Inventory kInventories[] = {
    {"gpt2_124m", 148, 124439808, {{{50257, 768}, 1}, {{2304, 768}, 12}, {{3072, 768}, 12}, {{3072}, 12}, {{768}, 74}}},
    {"resnet50",
     161,
     25557032,
     {{{64, 64, 3, 3}, 3},
      {{256, 256, 3, 3}, 6},
      {{1024, 256, 1, 1}, 6},
      {{2048}, 8},
      {{1024}, 14},
      {{512}, 22},
      {{256}, 32},
      {{128}, 16},
      {{64}, 14}}},
    {"lora_448",
     448,
     41943040,
     {{{16, 4096}, 192}, {{16, 14336}, 32}, {{4096, 16}, 96}, {{1024, 16}, 64}, {{14336, 16}, 64}}},
    {"llama32_1b",
     146,
     1235814400,
     {{{8192, 2048}, 32}, {{2048, 8192}, 16}, {{2048, 2048}, 32}, {{512, 2048}, 32}, {{2048}, 33}}},
    {"vit_b16", 152, 86567656, {{{768, 3, 16, 16}, 1}, {{1, 197, 768}, 1}, {{3072}, 12}, {{768}, 75}}},
    {"bert_large", 391, 335141888, {{{1024, 1024}, 97}, {{4096, 1024}, 24}, {{4096}, 24}, {{1024}, 219}}},
    {"qwen3_moe_layer", 393, 623120640, {{{768, 2048}, 256}, {{2048, 768}, 128}, {{128}, 2}, {{2048}, 2}}},
    {"many_small", 8194, 8196, {{{1}, 8193}, {{3}, 1}}},
};

TEST_CASE("inventories have the published totals") {
  for (const Inventory& row : kInventories) {
    DYNAMIC_SECTION(row.name) {
      const std::vector<TensorShape> shapes = list(row.name);
      CHECK(shapes.size() == row.tensors);
      CHECK(sum_of(shapes) == row.params);
      std::map<std::vector<int64_t>, int> counted;
      for (const TensorShape& shape : shapes) ++counted[shape.dims];
      for (const auto& [dims, count] : row.counts) {
        INFO(dims[0] << " " << dims.size());
        CHECK(counted[dims] == count);
      }
    }
  }
}

TEST_CASE("layers are interleaved as in the model") {
  const std::vector<TensorShape> shapes = list("gpt2_124m");
  size_t decreases = 0, increases = 0;
  for (size_t i = 1; i < shapes.size(); ++i) {
    decreases += shapes[i].n < shapes[i - 1].n ? 1 : 0;
    increases += shapes[i].n > shapes[i - 1].n ? 1 : 0;
  }
  CHECK(decreases > 40);
  CHECK(increases > 40);
}

TEST_CASE("a divisor divides every dimension, rounded up") {
  const std::vector<TensorShape> whole = list("gpt2_124m"), part = list("gpt2_124m/32");
  REQUIRE(part.size() == whole.size());
  CHECK(part[0].dims == std::vector<int64_t>{1571, 24});  // 50257 / 32 = 1570.5
  CHECK(part[2].dims == std::vector<int64_t>{24});
  CHECK(sum_of(part) == 125208);
  CHECK(sum_of(list("gpt2_124m/1")) == 124439808);
}

TEST_CASE("literal lists") {
  struct Row {
    const char* name;
    std::vector<std::vector<int64_t>> dims;
  };
  const Row rows[] = {
      {"[7,0,5]", {{7}, {0}, {5}}},
      {"[[64,48],[5]]", {{64, 48}, {5}}},
      {"[0]", {{0}}},
      {"[[2,1,100], 3]", {{2, 1, 100}, {3}}},
      {R"([{"repeat": 3, "tensors": [1, [2, 2]]}, 3])", {{1}, {2, 2}, {1}, {2, 2}, {1}, {2, 2}, {3}}},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const std::vector<TensorShape> shapes = list(row.name);
      REQUIRE(shapes.size() == row.dims.size());
      for (size_t i = 0; i < shapes.size(); ++i) CHECK(shapes[i].dims == row.dims[i]);
      sum_of(shapes);
    }
  }
  CHECK(list("[[64,48]]")[0].rows == 64);
  CHECK(list("[[2,3,5]]")[0].cols == 15);
  CHECK(list("[9]")[0].cols == 1);
}

TEST_CASE("wrong lists are refused with advice") {
  struct Row {
    const char* name;
    const char* part;  ///< of the message
  };
  const Row rows[] = {
      {"gpt2_124", "gpt2_124m"},
      {"gpt2_124m/0", "positive integer"},
      {"gpt2_124m/x", "positive integer"},
      {"gpt2_124m/", "positive integer"},
      {"", "no tensor list"},
      {"[-1]", "from 0"},
      {"[1.5]", "an integer"},
      {"[]", "at least one"},
      {"[[]]", "1 to 8"},
      {"[1,", "not JSON"},
      {"[[4000000000,4000000000]]", "too large"},
      {"[\"7\"]", "an integer"},
      {"gpt2_124m/2/2", "positive integer"},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION("\"" << row.name << "\"") {
      const Result<std::vector<TensorShape>> shapes = tensor_list(row.name);
      REQUIRE(!shapes.ok());
      CHECK_THAT(to_text(shapes.error()), Catch::Contains(row.part));
    }
  }
}

TEST_CASE("cases: lists times families times offsets, first steps in turn, unique names") {
  const Result<TaskSpec> task = load_task("adamw");
  REQUIRE(task.ok());
  CaseGroup group;
  group.lists = {"[7,0,5]", "gpt2_124m/64"};
  group.families = {"gaussian", "tiny"};
  group.first_steps = {1, 2, 1000};
  group.offsets = {{0, 0, 0, 0}, {1, 0, 0, 0}};
  group.steps = 3;
  const CaseGroup groups[] = {group, group};
  const Result<std::vector<CaseSpec>> cases = expand_cases(task.value(), groups);
  REQUIRE(cases.ok());
  REQUIRE(cases.value().size() == 16);
  std::set<std::string> names;
  for (const CaseSpec& spec : cases.value()) {
    CHECK(names.insert(spec.name).second);
    CHECK(spec.name.find_first_of(" []\"'$") == std::string::npos);
    CHECK(spec.steps == 3);
  }
  CHECK(cases.value()[0].name == "n7+0+5/gaussian/t1");
  CHECK(cases.value()[1].name == "n7+0+5/gaussian/t2/off1.0.0.0");
  CHECK(cases.value()[2].first_step == 1000);
  CHECK(cases.value()[3].first_step == 1);
  CHECK(cases.value()[4].name == "gpt2_124m_div64/gaussian/t2");
  CHECK(cases.value()[8].name == "n7+0+5/gaussian/t1/2");
  CHECK(cases.value()[1].offset_elements == std::vector<int32_t>{1, 0, 0, 0});
  CHECK(cases.value()[0].tensors.size() == 3);
}

TEST_CASE("elements of a buffer follow its shape word") {
  const TensorShape shape = make_shape({4, 3, 5});
  struct Row {
    const char* word;
    int64_t elements;
  };
  for (const Row row : {Row{"n", 60}, Row{"rows", 4}, Row{"cols", 15}, Row{"1", 1}}) {
    BufferSpec buffer;
    buffer.shape = row.word;
    CHECK(buffer_elements(buffer, shape) == row.elements);
  }
}

}  // namespace
}  // namespace stepbench
