// Reading task files: the shipped ones, and broken ones with the exact complaint.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/stages.h"

namespace stepbench {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

/// A tree of its own with one task, named by STEPBENCH_ROOT as long as it lives.
class TemporaryTree {
 public:
  explicit TemporaryTree(const std::string& task_json) {
    std::string pattern = (fs::temp_directory_path() / "stepbench_task_XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    root_ = pattern;
    fs::create_directories(root_ / "tasks" / "adamw");
    const fs::path shipped = fs::path(STEPBENCH_TEST_FOLDER).parent_path() / "tasks";
    fs::copy_file(shipped / "shapes.json", root_ / "tasks" / "shapes.json");
    std::ofstream(root_ / "tasks" / "adamw" / "task.json") << task_json;
    REQUIRE(setenv("STEPBENCH_ROOT", root_.c_str(), 1) == 0);
  }
  ~TemporaryTree() {
    unsetenv("STEPBENCH_ROOT");
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  TemporaryTree(const TemporaryTree&) = delete;
  TemporaryTree& operator=(const TemporaryTree&) = delete;

 private:
  fs::path root_;
};

std::string shipped_task() {
  return text_of(fs::path(STEPBENCH_TEST_FOLDER).parent_path() / "tasks" / "adamw" / "task.json");
}

TEST_CASE("the shipped tasks load and say what they should") {
  const Result<std::vector<std::string>> ids = list_tasks();
  REQUIRE(ids.ok());
  for (const char* const id :
       {"adagrad", "adam", "adamw", "adan", "amsgrad", "lion", "nadam", "radam", "rmsprop", "sgd_momentum"})
    CHECK(std::find(ids.value().begin(), ids.value().end(), id) != ids.value().end());
  for (const std::string& id : ids.value()) {
    const Result<TaskSpec> task = load_task(id);
    if (!task.ok()) FAIL(to_text(task.error()));
    CHECK(task.value().id == id);
    for (const char* const suite : {"smoke", "standard", "full"}) CHECK(task.value().suites.count(suite) == 1);
  }
}

TEST_CASE("AdamW's buffers and Hyper fields keep their order") {
  const TaskSpec task = load_task("adamw").value();
  std::string buffers, fields;
  for (const BufferSpec& buffer : task.buffers) buffers += buffer.name + " ";
  for (const HyperField& field : task.hyper) fields += field.name + " ";
  CHECK(buffers == "param grad exp_avg exp_avg_sq ");
  CHECK(fields ==
        "step lr beta1 beta2 eps weight_decay bias_correction1 bias_correction2 bias_correction2_sqrt step_size "
        "grad_scale found_inf ");
  CHECK(task.buffers[1].role == Role::kIn);
  CHECK(task.hyper[0].type == HyperType::kI32);
  CHECK(task.hyper[1].scheduled);
  CHECK(task.bytes_per_param == 28);
}

TEST_CASE("suites are of the promised size") {
  struct Row {
    const char* suite;
    double least, most;
  };
  for (const std::string& id : list_tasks().value()) {
    const TaskSpec task = load_task(id).value();
    if (task.family != "elementwise") continue;  // work per element differs in the others
    for (const Row& row : {Row{"smoke", 0.8e6, 2e6}, Row{"standard", 14e6, 26e6}, Row{"full", 100e6, 400e6}}) {
      const Suite& suite = task.suites.at(row.suite);
      double work = 0;
      for (const auto* const groups : {&suite.edges, &suite.families, &suite.determinism}) {
        const Result<std::vector<CaseSpec>> cases = expand_cases(task, *groups);
        if (!cases.ok()) FAIL(to_text(cases.error()));
        for (const CaseSpec& spec : cases.value())
          for (const TensorShape& shape : spec.tensors) work += static_cast<double>(shape.n) * spec.steps;
      }
      for (const DriftSpec& drift : suite.drift) {
        const Result<std::vector<TensorShape>> tensors = tensor_list(drift.list);
        REQUIRE(tensors.ok());
        for (const TensorShape& shape : tensors.value())
          work += static_cast<double>(shape.n * drift.steps) * static_cast<double>(drift.families.size());
      }
      INFO(id << " " << row.suite << ": " << work);
      CHECK(work >= row.least);
      CHECK(work <= row.most);
    }
  }
}

TEST_CASE("the candidate in a task's README is a variant or a baseline, so that it is known to pass") {
  int found = 0;
  for (const std::string& id : list_tasks().value()) {
    const fs::path folder = fs::path(STEPBENCH_TEST_FOLDER).parent_path() / "tasks" / id;
    const std::string readme = text_of(folder / "README.md");
    INFO(id);
    CHECK(!readme.empty());
    const size_t begin = readme.find("```cuda\n");
    const std::string family = load_task(id).value().family;
    if (begin == std::string::npos || (family != "elementwise" && family != "norm")) continue;
    const size_t first = begin + std::string("```cuda\n").size(), end = readme.find("```", first);
    REQUIRE(end != std::string::npos);
    ++found;
    // Without a plan of its own it is a variant; where a step takes several launches, the simplest baseline.
    const fs::path known = family == "elementwise"
                               ? folder / "variants" / "default_plan.cu"
                               : folder.parent_path().parent_path() / "reference_kernels" / id / "naive.cu";
    CHECK(text_of(known).find(readme.substr(first, end - first)) != std::string::npos);
  }
  CHECK(found >= 11);
}

TEST_CASE("broken task files are refused at the right place") {
  struct Row {
    const char* name;
    const char* find;
    const char* replace;
    std::vector<const char*> parts;  ///< of the message
  };
  const Row rows[] = {
      {"not JSON", "\"id\": \"adamw\",", "\"id\": \"adamw\"", {"task.json:3:", "not JSON"}},
      {"unknown key", "\"title\"", "\"titel\"", {"at /", "unknown key", "perhaps \"title\"", "\"titel\""}},
      {"missing key", "\"family\": \"elementwise\",", "", {"a key is missing", "\"family\""}},
      {"twice the same key", "\"version\": 1,", "\"version\": 1, \"version\": 2,", {"twice", "\"version\""}},
      {"another id", "\"id\": \"adamw\"", "\"id\": \"adam\"", {"/id", "folder's name", "\"adam\""}},
      {"unknown family", "\"family\": \"elementwise\"", "\"family\": \"pointwise\"", {"/family", "elementwise"}},
      {"wrong dtype",
       "\"dtype\": \"f32\", \"role\": \"in\"",
       "\"dtype\": \"f64\", \"role\": \"in\"",
       {"/buffers/1/dtype", "f32, bf16"}},
      {"number as text", "\"bytes_per_param\": 28", "\"bytes_per_param\": \"28\"", {"/bytes_per_param", "a number"}},
      {"negative tolerance",
       "\"step_ulp\": 4",
       "\"step_ulp\": -4",
       {"/buffers/0/tolerance/step_ulp", "zero or more", "-4"}},
      {"tolerance that accepts doing nothing",
       "\"drift_ratio\": 0.0002",
       "\"drift_ratio\": 1.5",
       {"/buffers/0/tolerance/drift_ratio", "below 1"}},
      {"tolerance of an input",
       "\"initial\": \"gradient\"}",
       "\"initial\": \"gradient\", \"tolerance\": {}}",
       {"/buffers/1/tolerance", "must not change"}},
      {"unknown initial",
       "\"initial\": \"second_moment\"",
       "\"initial\": \"second_momentum\"",
       {"/buffers/3/initial", "second_moment"}},
      {"rounding of an input",
       "\"initial\": \"gradient\"}",
       "\"initial\": \"gradient\", \"rounding\": \"nearest\"}",
       {"/buffers/1/rounding", "must not change"}},
      {"rounding to what it is computed in",
       "\"initial\": \"moment\",",
       "\"initial\": \"moment\", \"rounding\": \"nearest\",",
       {"/buffers/2/rounding", "fp32", "narrower"}},
      {"unknown rounding",
       "\"initial\": \"moment\",",
       "\"initial\": \"moment\", \"rounding\": \"up\",",
       {"/buffers/2/rounding", "one of none, nearest, stochastic", "\"up\""}},
      {"codes by chance",
       "\"dtype\": \"f32\",\n      \"role\": \"inout\",\n      \"shape\": \"n\",\n      \"initial\": \"moment\",",
       "\"dtype\": \"u8\", \"role\": \"inout\", \"initial\": \"moment_code\", \"rounding\": \"stochastic\",",
       {"/buffers/2/rounding", "floating-point"}},
      {"codes in fp32", "\"initial\": \"moment\",", "\"initial\": \"moment_code\",", {"/buffers/2/dtype", "u8"}},
      {"a scale per element",
       "\"initial\": \"moment\",",
       "\"initial\": \"moment_scale\",",
       {"/buffers/2/shape", "n/256"}},
      {"a square of elements",
       "\"shape\": \"n\",\n      \"initial\": \"moment\",",
       "\"shape\": \"rows*rows\", \"initial\": \"moment\",",
       {"/buffers/2/initial", "square matrix", "\"moment\""}},
      {"a basis that is no square",
       "\"initial\": \"moment\",",
       "\"initial\": \"orthogonal\",",
       {"/buffers/2/shape", "rows*rows", "n"}},
      {"the left factor on the right",
       "\"shape\": \"n\",\n      \"initial\": \"moment\",",
       "\"shape\": \"cols*cols\", \"initial\": \"left_factor\",",
       {"/buffers/2/shape", "rows*rows", "cols*cols"}},
      {"a buffer twice", "\"name\": \"exp_avg_sq\"", "\"name\": \"exp_avg\"", {"/buffers/3/name", "used twice"}},
      {"a name with capitals", "\"name\": \"exp_avg_sq\"", "\"name\": \"expAvgSq\"", {"/buffers/3/name", "not a name"}},
      {"formula with an unknown name",
       "\"derived\": \"1 - beta1^step\"",
       "\"derived\": \"1 - beta3^step\"",
       {"/hyper/6/derived", "beta3"}},
      {"formula that is infinite",
       "\"derived\": \"lr / bias_correction1\"",
       "\"derived\": \"lr / found_inf\"",
       {"/hyper/9/derived", "finite"}},
      {"product over the steps that does not fall",
       "\"draw\": \"derived\",\n      \"derived\": \"lr / bias_correction1\"",
       "\"draw\": \"derived_product\",\n      \"derived\": \"1 + lr\"",
       {"/hyper/9/derived", "below 1"}},
      {"unknown draw", "\"draw\": \"step\"", "\"draw\": \"stop\"", {"/hyper/0/draw", "one of log", "\"stop\""}},
      {"empty range", "\"max\": 0.95", "\"max\": 0.1", {"/hyper/2/max", "empty"}},
      {"logarithm of zero", "\"min\": 1e-10", "\"min\": 0", {"/hyper/4/min", "positive"}},
      {"choice that is no fp32 number",
       "\"choices\": [0.5, 2, 4, 16, 1024]",
       "\"choices\": [0.1]",
       {"/hyper/10/choices/0", "fp32"}},
      {"argument that does not exist",
       "[\"param\", \"grad\", \"exp_avg\", \"exp_avg_sq\", \"n\", \"hyper\"]",
       "[\"param\", \"gradient\"]",
       {"/default_args/1", "\"gradient\""}},
      {"list that does not exist",
       "\"resnet50/32\"",
       "\"resnet5/32\"",
       {"/suites/smoke/families/2/lists/0", "resnet50"}},
      {"offsets of another task",
       "[[1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]",
       "[[1, 1, 1]]",
       {"/suites/smoke/edges/2/offsets/0", "one per buffer, 4", "found 3"}},
      {"suite missing", "\"smoke\": {", "\"smog\": {", {"/suites", "perhaps \"smoke\""}},
      {"steps out of range", "\"steps\": 200", "\"steps\": 0", {"/suites/smoke/drift/0/steps", "10 to"}},
      {"a library call that does not exist",
       "\"default_args\": [",
       "\"allows\": [\"gemv\"], \"default_args\": [",
       {"/allows/0", "gemm", "gemv"}},
      {"properties of elements",
       "\"default_args\": [",
       "\"properties\": [], \"default_args\": [",
       {"/properties", "whole tensors", "norm or matrix", "elementwise"}},
      {"work in another unit", "\"flops\": {\"fp32\"", "\"flops\": {\"fp64\"", {"/flops", "unknown key", "\"fp64\""}},
      {"work of nobody's size", "\"14*n\"", "\"14*depth\"", {"/flops/fp32", "depth"}},
      {"work below zero", "\"14*n\"", "\"14*n - 100\"", {"/flops/fp32", "1 x 1", "zero or more", "-86"}},
      {"work without a value", "\"14*n\"", "\"1/(rows - 1)\"", {"/flops/fp32", "no finite value"}},
      {"a number for a formula", "\"14*n\"", "14", {"/flops/fp32", "14"}},
      {"a gate without its floor", "\"14*n\"", "\"14*n\", \"tensor_gate\": \"n\"", {"/flops/tensor_gate", "tensor"}},
      {"found_inf without the flag",
       "\"draw\": \"found_inf\"",
       "\"draw\": \"first_step\"",
       {"/suites/smoke/edges/3/with_found_inf", "found_inf"}},
  };
  const std::string good = shipped_task();
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.name) {
      std::string text = good;
      const size_t at = text.find(row.find);
      REQUIRE(at != std::string::npos);
      text.replace(at, std::string(row.find).size(), row.replace);
      const TemporaryTree tree(text);
      const Result<TaskSpec> task = load_task("adamw");
      REQUIRE(!task.ok());
      const std::string message = to_text(task.error());
      for (const char* const part : row.parts) CHECK_THAT(message, Catch::Contains(part));
      CHECK_THAT(message, Catch::Contains("tasks/adamw/task.json"));
    }
  }
  SECTION("the control: the file as shipped") {
    const TemporaryTree tree(good);
    const Result<TaskSpec> task = load_task("adamw");
    if (!task.ok()) FAIL(to_text(task.error()));
  }
}

TEST_CASE("properties are read in order, and broken ones refused at the right place") {
  std::string text = shipped_task();
  const auto with = [&](const std::string& properties) {
    std::string changed = text;
    const std::string family = "\"family\": \"elementwise\",";
    REQUIRE(changed.find(family) != std::string::npos);
    changed.replace(changed.find(family), family.size(), "\"family\": \"norm\", \"properties\": [" + properties + "],");
    const TemporaryTree tree(changed);
    return load_task("adamw");
  };
  const std::string good = R"({"name": "order", "buffer": "param", "limit": 0.001, "meaning": "how far out of order"})";
  struct Row {
    const char* name;
    std::string find, replace;
    std::vector<const char*> parts;
  };
  const Row rows[] = {
      {"unknown key", "\"limit\"", "\"limits\"", {"/properties/0", "unknown key", "\"limits\""}},
      {"missing key", R"(, "meaning": "how far out of order")", "", {"/properties/0", "missing", "meaning"}},
      {"capitals", "\"order\"", "\"Order\"", {"/properties/0/name", "not a name"}},
      {"an input", "\"param\"", "\"grad\"", {"/properties/0/buffer", "exp_avg", "\"grad\""}},
      {"limit zero", "0.001", "0", {"/properties/0/limit", "above 0"}},
      {"twice", good, good + ", " + good, {"/properties/1/name", "used twice"}},
      {"none", good, "", {"/properties", "1 to 8", "found 0"}},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    std::string changed = good;
    REQUIRE(changed.find(row.find) != std::string::npos);
    changed.replace(changed.find(row.find), row.find.size(), row.replace);
    const Result<TaskSpec> task = with(changed);
    CHECK(!task.ok());
    if (task.ok()) continue;
    for (const char* const part : row.parts) CHECK_THAT(to_text(task.error()), Catch::Contains(part));
  }
  std::string nine;
  for (int i = 0; i < 9; ++i) {
    std::string one = good;
    one.replace(one.find("order"), 5, "order" + std::to_string(i));
    nine += (i > 0 ? ", " : "") + one;
  }
  CHECK_THAT(to_text(with(nine).error()), Catch::Contains("1 to 8") && Catch::Contains("found 9"));
  // The control.
  std::string second = good;
  second.replace(second.find("order"), 5, "other");
  const Result<TaskSpec> task = with(good + ", " + second);
  if (!task.ok()) FAIL(to_text(task.error()));
  REQUIRE(task.value().properties.size() == 2);
  CHECK(task.value().properties[0].name == "order");
  CHECK(task.value().properties[1].name == "other");
  CHECK(task.value().properties[0].buffer == "param");
  CHECK(task.value().properties[0].limit == 0.001);
  CHECK(task.value().properties[0].meaning == "how far out of order");
}

TEST_CASE("an unknown task names the known ones") {
  const Result<TaskSpec> task = load_task("adam_w");
  REQUIRE(!task.ok());
  CHECK(task.error().code == ErrorCode::kNotFound);
  CHECK_THAT(to_text(task.error()), Catch::Contains("perhaps \"adamw\"") && Catch::Contains("sgd_momentum"));
}

TEST_CASE("a wrong root is refused") {
  REQUIRE(setenv("STEPBENCH_ROOT", "/nonexistent", 1) == 0);
  const Result<std::string> folder = tasks_folder();
  unsetenv("STEPBENCH_ROOT");
  REQUIRE(!folder.ok());
  CHECK_THAT(to_text(folder.error()), Catch::Contains("STEPBENCH_ROOT"));
  CHECK(tasks_folder().ok());
}

}  // namespace
}  // namespace stepbench
