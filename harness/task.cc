// Where the tasks lie, which there are, and reading one: tasks/<id>/task.json is checked field by field against the
// format that tasks/README.md describes. Every complaint names file, JSON pointer, expected and found.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "harness/floor.h"
#include "harness/formula.h"
#include "harness/inputs.h"
#include "harness/json_reader.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

namespace fs = std::filesystem;
using Words = std::span<const std::string_view>;

constexpr std::string_view kFamilyWords[] = {"elementwise", "storage", "norm", "matrix"};
constexpr std::string_view kDTypeWords[] = {"f32", "bf16", "f16", "u8", "i32", "i16"};
constexpr std::string_view kRoleWords[] = {"in", "inout"};
constexpr std::string_view kShapeWords[] = {"n", "rows", "cols", "rows*rows", "cols*cols", "1", "n/256"};
constexpr std::string_view kRoundingWords[] = {"none", "nearest", "stochastic"};
constexpr std::string_view kHyperTypeWords[] = {"f32", "i32"};
constexpr std::string_view kDrawWords[] = {"log",        "log_to_one", "linear",  "choice",         "step",
                                           "first_step", "found_inf",  "derived", "derived_product"};
constexpr std::string_view kArgumentWords[] = {"n",     "rows", "cols",        "tensors", "total",  "index",
                                               "hyper", "n[]",  "hyper.value", "rows[]",  "cols[]", "offset[]"};
constexpr std::string_view kAllowWords[] = {"gemm"};
constexpr std::string_view kSuiteWords[] = {"smoke", "standard", "full"};

bool is_word(const std::string& text) {
  if (text.empty() || text.size() > 64 || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

std::string read_name(const JsonReader& value) {
  const std::string name = value.text();
  if (!is_word(name)) value.fail("not a name", "lower-case letters, digits and underscores", "\"" + name + "\"");
  return name;
}

template <class T>
T index_of(const JsonReader& value, Words words) {
  const std::string word = value.one_of(words);
  return static_cast<T>(std::find(words.begin(), words.end(), word) - words.begin());
}

double non_negative(const JsonReader& value) {
  const double number = value.number();
  if (number < 0) value.fail("a number is out of range", "zero or more", fmt::format("{}", number));
  return number;
}

/// A share of a value and a matrix have the format that their name says.
void check_share(const JsonReader& json, const BufferSpec& buffer) {
  const std::string_view initial = buffer.initial;
  const auto want = [&](std::string_view suffix, std::string_view dtype, std::string_view shape) {
    if (!initial.ends_with(suffix)) return;
    if (to_text(buffer.dtype) != dtype)
      json.at("dtype").fail(fmt::format("\"{}\" is stored as {}", initial, dtype), "",
                            std::string(to_text(buffer.dtype)));
    if (buffer.shape != shape)
      json.at(json.has("shape") ? "shape" : "initial")
          .fail(fmt::format("\"{}\" has {} elements", initial, shape), fmt::format("\"{}\"", shape), buffer.shape);
  };
  want("_low", "i16", "n");
  want("_code", "u8", "n");
  want("_scale", "f32", "n/256");
  want("left_factor", "f32", "rows*rows");
  want("left_factor_root", "f32", "rows*rows");
  want("right_factor", "f32", "cols*cols");
  want("right_factor_root", "f32", "cols*cols");
  const bool is_square = buffer.shape == "rows*rows" || buffer.shape == "cols*cols";
  if (initial == "orthogonal") want("orthogonal", "f32", is_square ? std::string_view(buffer.shape) : "rows*rows");
  if (is_square && initial != "orthogonal" && initial.find("_factor") == std::string_view::npos)
    json.at("initial").fail("a square matrix needs the values of one", "orthogonal, a factor or its root",
                            "\"" + buffer.initial + "\"");
}

BufferSpec read_buffer(const JsonReader& json) {
  json.only_keys({"name", "dtype", "role", "shape", "initial", "tolerance", "rounding"});
  BufferSpec buffer;
  buffer.name = read_name(json.at("name"));
  buffer.dtype = index_of<DType>(json.at("dtype"), kDTypeWords);
  buffer.role = index_of<Role>(json.at("role"), kRoleWords);
  if (json.has("shape")) buffer.shape = json.at("shape").one_of(kShapeWords);
  buffer.initial = json.at("initial").one_of(initial_names());
  check_share(json, buffer);
  if (buffer.role == Role::kIn) {
    if (json.has("tolerance")) json.at("tolerance").fail("an input has no tolerance: it must not change at all");
    if (json.has("rounding")) json.at("rounding").fail("an input is not rounded: it must not change at all");
    return buffer;
  }
  const JsonReader tolerance = json.at("tolerance");
  tolerance.only_keys({"step_scale_ratio", "step_ulp", "drift_ratio"});
  buffer.tolerance.step_scale_ratio = non_negative(tolerance.at("step_scale_ratio"));
  buffer.tolerance.step_ulp = non_negative(tolerance.at("step_ulp"));
  buffer.tolerance.drift_ratio = non_negative(tolerance.at("drift_ratio"));
  if (json.has("rounding")) buffer.rounding = index_of<Rounding>(json.at("rounding"), kRoundingWords);
  const bool floating = buffer.dtype == DType::kF32 || buffer.dtype == DType::kBf16 || buffer.dtype == DType::kF16;
  if (buffer.rounding == Rounding::kStochastic && !floating)
    json.at("rounding").fail("codes and counters have no neighbours to choose from", "a floating-point dtype");
  if (buffer.rounding != Rounding::kNone && buffer.dtype == DType::kF32)
    json.at("rounding").fail("updates are computed in fp32: storing it rounds nothing", "a narrower dtype");
  if (buffer.tolerance.step_scale_ratio >= 1)
    tolerance.at("step_scale_ratio").fail("a limit as large as the movement itself accepts doing nothing", "below 1");
  if (buffer.tolerance.drift_ratio >= 1)
    tolerance.at("drift_ratio").fail("a limit as large as the movement itself accepts doing nothing", "below 1");
  return buffer;
}

void check_value(const JsonReader& json, const HyperField& field, double value) {
  if (field.type == HyperType::kI32 && (value != std::floor(value) || std::fabs(value) > 2147483647.0))
    json.fail("a 32-bit integer field has another value", "an integer", fmt::format("{}", value));
  if (field.type == HyperType::kF32 && std::fabs(value) > 3.4e38)
    json.fail("a number is out of the range of fp32", "", fmt::format("{}", value));
}

HyperField read_hyper(const JsonReader& json) {
  json.only_keys(
      {"name", "type", "meaning", "default", "min", "max", "draw", "choices", "derived", "scheduled", "condition"});
  HyperField field;
  field.name = read_name(json.at("name"));
  field.type = index_of<HyperType>(json.at("type"), kHyperTypeWords);
  field.meaning = json.at("meaning").text();
  field.draw = json.at("draw").one_of(kDrawWords);
  const bool ranged = field.draw == "log" || field.draw == "log_to_one" || field.draw == "linear";
  const bool drawn = ranged || field.draw == "choice";
  const auto refuse = [&](const char* key, bool wanted) {
    if (json.has(key) && !wanted)
      json.at(key).fail(fmt::format("the key has no meaning where \"draw\" is \"{}\"", field.draw));
  };
  refuse("min", ranged);
  refuse("max", ranged);
  refuse("choices", field.draw == "choice");
  refuse("derived", field.draw == "derived" || field.draw == "derived_product");
  refuse("default", drawn);
  refuse("scheduled", drawn);
  refuse("condition", drawn);

  if (drawn) {
    field.default_value = json.at("default").number();
    check_value(json.at("default"), field, field.default_value);
  }
  if (ranged) {
    field.min = json.at("min").number();
    field.max = json.at("max").number();
    check_value(json.at("min"), field, field.min);
    check_value(json.at("max"), field, field.max);
    if (!(field.min < field.max))
      json.at("max").fail("the range is empty", fmt::format("above {}", field.min), fmt::format("{}", field.max));
    if (field.draw == "log" && !(field.min > 0))
      json.at("min").fail("a logarithmic range must be positive", "above 0", fmt::format("{}", field.min));
    if (field.draw == "log_to_one" && !(field.max < 1))
      json.at("max").fail("the range of a draw towards one must end below it", "below 1", fmt::format("{}", field.max));
    if (field.draw != "linear" && field.type != HyperType::kF32)
      json.at("draw").fail("a logarithmic draw needs an f32 field", "\"linear\" or \"choice\"");
  }
  if (field.draw == "choice") {
    for (const JsonReader& choice : json.at("choices").items()) {
      field.choices.push_back(choice.number());
      check_value(choice, field, field.choices.back());
      if (field.type == HyperType::kF32 &&
          static_cast<double>(static_cast<float>(field.choices.back())) != field.choices.back())
        choice.fail("a choice is not an fp32 number");
    }
    if (field.choices.empty()) json.at("choices").fail("there is nothing to choose from", "at least one number");
    field.min = *std::min_element(field.choices.begin(), field.choices.end());
    field.max = *std::max_element(field.choices.begin(), field.choices.end());
  }
  if (field.draw == "derived" || field.draw == "derived_product") field.derived = json.at("derived").text();
  if (json.has("scheduled")) field.scheduled = json.at("scheduled").boolean();
  if (json.has("condition")) field.condition = json.at("condition").text();
  if ((field.draw == "step" || field.draw == "first_step" || field.draw == "found_inf") &&
      field.type != HyperType::kI32)
    json.at("type").fail(fmt::format("a field drawn as \"{}\" is an integer", field.draw), "\"i32\"", "\"f32\"");
  return field;
}

/// Lists of tensors that have been looked up already: a suite names the same ones again and again.
using KnownLists = std::set<std::string>;

std::string read_list(const JsonReader& json, KnownLists& known) {
  const std::string name = json.text();
  if (known.count(name) != 0) return name;
  const Result<std::vector<TensorShape>> tensors = tensor_list(name);
  if (!tensors.ok()) json.fail(to_text(tensors.error()), "a tensor list", "\"" + name + "\"");
  known.insert(name);
  return name;
}

std::vector<std::string> read_lists(const JsonReader& json, KnownLists& known) {
  std::vector<std::string> lists;
  for (const JsonReader& item : json.items()) lists.push_back(read_list(item, known));
  if (lists.empty()) json.fail("the list is empty", "at least one tensor list");
  return lists;
}

std::vector<std::string> read_families(const JsonReader& json, const TaskSpec& task) {
  const std::vector<std::string_view> known(task.input_families.begin(), task.input_families.end());
  std::vector<std::string> families;
  for (const JsonReader& item : json.items()) families.push_back(item.one_of(known));
  if (families.empty()) json.fail("the list is empty", "at least one input family");
  return families;
}

CaseGroup read_group(const JsonReader& json, const TaskSpec& task, KnownLists& known) {
  json.only_keys({"lists", "families", "first_steps", "steps", "offsets", "with_found_inf"});
  CaseGroup group;
  group.lists = read_lists(json.at("lists"), known);
  group.families = read_families(json.at("families"), task);
  for (const JsonReader& step : json.at("first_steps").items())
    group.first_steps.push_back(step.integer(1, 2000000000));
  if (group.first_steps.empty()) json.at("first_steps").fail("the list is empty", "at least one step");
  group.steps = static_cast<int32_t>(json.at("steps").integer(1, 100000));
  if (json.has("offsets")) {
    for (const JsonReader& row : json.at("offsets").items()) {
      std::vector<int32_t> offset;
      for (const JsonReader& value : row.items()) offset.push_back(static_cast<int32_t>(value.integer(0, 1024)));
      if (offset.size() != task.buffers.size())
        row.fail("wrong number of offsets", fmt::format("one per buffer, {}", task.buffers.size()),
                 std::to_string(offset.size()));
      group.offsets.push_back(std::move(offset));
    }
  }
  if (json.has("with_found_inf")) {
    group.with_found_inf = json.at("with_found_inf").boolean();
    const bool has_flag =
        std::any_of(task.hyper.begin(), task.hyper.end(), [](const HyperField& f) { return f.draw == "found_inf"; });
    if (group.with_found_inf && !has_flag)
      json.at("with_found_inf").fail("the task has no hyperparameter that is drawn as \"found_inf\"");
  }
  return group;
}

DriftSpec read_drift(const JsonReader& json, const TaskSpec& task, KnownLists& known) {
  json.only_keys({"list", "families", "steps", "hidden_checkpoints"});
  DriftSpec drift;
  drift.list = read_list(json.at("list"), known);
  drift.families = read_families(json.at("families"), task);
  drift.steps = json.at("steps").integer(10, 10000000);
  if (json.has("hidden_checkpoints"))
    drift.hidden_checkpoints = static_cast<int32_t>(json.at("hidden_checkpoints").integer(1, 1000));
  return drift;
}

Suite read_suite(const JsonReader& json, const TaskSpec& task, KnownLists& known) {
  json.only_keys({"edges", "families", "determinism", "drift", "large", "timing"});
  const auto groups = [&](const char* key) {
    std::vector<CaseGroup> out;
    for (const JsonReader& group : json.at(key).items()) out.push_back(read_group(group, task, known));
    if (out.empty()) json.at(key).fail("the list is empty", "at least one group of cases");
    return out;
  };
  Suite suite;
  suite.edges = groups("edges");
  suite.families = groups("families");
  suite.determinism = groups("determinism");
  for (const JsonReader& drift : json.at("drift").items()) suite.drift.push_back(read_drift(drift, task, known));
  if (suite.drift.empty()) json.at("drift").fail("the list is empty", "at least one drift case");
  if (json.has("large")) {
    for (const JsonReader& item : json.at("large").items()) {
      item.only_keys({"list", "steps"});
      LargeSpec large{.list = read_list(item.at("list"), known)};
      if (item.has("steps")) large.steps = static_cast<int32_t>(item.at("steps").integer(1, 1000));
      suite.large.push_back(std::move(large));
    }
  }
  if (json.has("timing")) {
    for (const JsonReader& item : json.at("timing").items()) {
      item.only_keys({"list", "hidden"});
      TimingSpec timing{.list = read_list(item.at("list"), known)};
      if (item.has("hidden")) timing.hidden = item.at("hidden").boolean();
      suite.timing.push_back(std::move(timing));
    }
  }
  return suite;
}

constexpr size_t kMostProperties = 8;

std::vector<PropertySpec> read_properties(const JsonReader& json, const TaskSpec& task) {
  if (task.family == "elementwise" || task.family == "storage")
    json.fail("properties are measured on whole tensors", "family norm or matrix", task.family);
  std::vector<std::string_view> written;
  for (const BufferSpec& buffer : task.buffers)
    if (buffer.role == Role::kInOut) written.push_back(buffer.name);
  std::set<std::string> names;
  std::vector<PropertySpec> properties;
  for (const JsonReader& item : json.items()) {
    item.only_keys({"name", "buffer", "limit", "meaning"});
    PropertySpec property;
    property.name = read_name(item.at("name"));
    if (!names.insert(property.name).second)
      item.at("name").fail("a name is used twice", "a name of its own", "\"" + property.name + "\"");
    property.buffer = item.at("buffer").one_of(written);
    property.limit = item.at("limit").number();
    if (!(property.limit > 0))
      item.at("limit").fail("a number is out of range", "above 0", fmt::format("{}", property.limit));
    property.meaning = item.at("meaning").text();
    properties.push_back(std::move(property));
  }
  if (properties.empty() || properties.size() > kMostProperties)
    json.fail("wrong number of properties", fmt::format("1 to {}", kMostProperties), std::to_string(properties.size()));
  return properties;
}

void check_hyper(const JsonReader& json, const TaskSpec& task) {
  std::set<std::string> names;
  for (const BufferSpec& buffer : task.buffers) names.insert(buffer.name);
  const std::vector<JsonReader> items = json.items();
  for (size_t i = 0; i < task.hyper.size(); ++i) {
    if (!names.insert(task.hyper[i].name).second)
      items[i].at("name").fail("a name is used twice", "a name of its own", "\"" + task.hyper[i].name + "\"");
  }
  // Formulas are tried with the defaults: a wrong name or syntax shows here and not in the middle of an evaluation.
  std::vector<std::pair<std::string, double>> variables;
  for (const HyperField& field : task.hyper) {
    const double value = field.draw == "step" ? 1 : field.default_value;
    if (field.draw != "derived" && field.draw != "derived_product") variables.emplace_back(field.name, value);
  }
  for (size_t i = 0; i < task.hyper.size(); ++i) {
    const HyperField& field = task.hyper[i];
    const bool product = field.draw == "derived_product", derived = product || field.draw == "derived";
    const char* const key = derived ? "derived" : "condition";
    const std::string& formula = derived ? field.derived : field.condition;
    if (formula.empty() && !derived) continue;
    const Result<double> value = product ? evaluate_product(formula, variables) : evaluate_formula(formula, variables);
    if (!value.ok()) items[i].at(key).fail(value.error().message, value.error().expected, "\"" + formula + "\"");
    if (derived) variables.emplace_back(field.name, value.value());
  }
}

void check_arguments(const JsonReader& json, const TaskSpec& task) {
  std::vector<std::string> names;
  for (const BufferSpec& buffer : task.buffers) {
    names.push_back(buffer.name);
    names.push_back(buffer.name + "[]");
  }
  for (const HyperField& field : task.hyper) names.push_back(field.name);
  std::vector<std::string_view> known(names.begin(), names.end());
  known.insert(known.end(), std::begin(kArgumentWords), std::end(kArgumentWords));
  for (const JsonReader& item : json.items()) item.one_of(known);
}

/// Formulas of work are tried on sizes of all kinds, so that a list never meets one that has no value.
std::string read_work(const JsonReader& json) {
  const std::string formula = json.text();
  for (const auto& [rows, cols] : std::initializer_list<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 7}, {4096, 1}, {5, 3}, {768, 3072}, {50257, 768}, {int64_t{1} << 31, 2}}) {
    const Result<double> work = evaluate_work(formula, make_shape({rows, cols}));
    if (!work.ok()) json.fail(work.error().message, work.error().expected, "\"" + formula + "\"");
    if (work.value() < 0)
      json.fail(fmt::format("a tensor of {} x {} would need less than nothing", rows, cols), "zero or more operations",
                fmt::format("{}", work.value()));
  }
  return formula;
}

FlopsSpec read_flops(const JsonReader& json) {
  json.only_keys({"fp32", "tensor", "tensor_gate"});
  FlopsSpec flops;
  if (json.has("fp32")) flops.fp32 = read_work(json.at("fp32"));
  if (json.has("tensor")) flops.tensor = read_work(json.at("tensor"));
  if (json.has("tensor_gate")) flops.tensor_gate = read_work(json.at("tensor_gate"));
  if (flops.tensor.empty() && !flops.tensor_gate.empty())
    json.at("tensor_gate").fail("a gate without the floor that it belongs to", "\"tensor\" beside it");
  return flops;
}

TaskSpec read_task(const JsonReader& json, const std::string& id, const std::string& folder) {
  json.only_keys({"id", "version", "title", "family", "buffers", "hyper", "default_args", "input_families", "suites",
                  "bytes_per_param", "flops", "bitwise_deterministic", "conventions", "properties", "allows"});
  TaskSpec task;
  task.folder = folder;
  task.id = json.at("id").text();
  if (task.id != id) json.at("id").fail("the id is not the folder's name", "\"" + id + "\"", "\"" + task.id + "\"");
  task.version = static_cast<int32_t>(json.at("version").integer(1, 1000000));
  task.title = json.at("title").text();
  task.family = json.at("family").one_of(kFamilyWords);
  task.bytes_per_param = non_negative(json.at("bytes_per_param"));
  task.flops = read_flops(json.at("flops"));
  task.bitwise_deterministic = json.at("bitwise_deterministic").boolean();

  if (json.has("allows"))
    for (const JsonReader& item : json.at("allows").items()) task.allows.push_back(item.one_of(kAllowWords));

  const std::vector<JsonReader> buffers = json.at("buffers").items();
  if (buffers.empty() || buffers.size() > 16) json.at("buffers").fail("wrong number of buffers", "1 to 16");
  std::set<std::string> buffer_names;
  for (const JsonReader& buffer : buffers) {
    task.buffers.push_back(read_buffer(buffer));
    if (!buffer_names.insert(task.buffers.back().name).second)
      buffer.at("name").fail("a name is used twice", "a name of its own", "\"" + task.buffers.back().name + "\"");
  }
  if (std::none_of(task.buffers.begin(), task.buffers.end(),
                   [](const BufferSpec& b) { return b.role == Role::kInOut; }))
    json.at("buffers").fail("no buffer is written", "at least one with role \"inout\"");

  if (json.has("properties")) task.properties = read_properties(json.at("properties"), task);

  for (const JsonReader& field : json.at("hyper").items()) task.hyper.push_back(read_hyper(field));
  if (task.hyper.empty() || task.hyper.size() > 64) json.at("hyper").fail("wrong number of fields", "1 to 64");
  check_hyper(json.at("hyper"), task);

  for (const JsonReader& argument : json.at("default_args").items()) task.default_args.push_back(argument.text());
  check_arguments(json.at("default_args"), task);
  for (const JsonReader& family : json.at("input_families").items())
    task.input_families.push_back(family.one_of(input_family_names()));
  if (task.input_families.empty()) json.at("input_families").fail("the list is empty", "at least one input family");
  for (const auto& [decision, text] : json.at("conventions").members())
    task.conventions.emplace_back(decision, text.text());

  json.at("suites").only_keys(kSuiteWords);
  KnownLists known;
  for (const std::string_view name : kSuiteWords) {
    const std::string key(name);
    task.suites[key] = read_suite(json.at("suites").at(key.c_str()), task, known);
  }
  return task;
}

/// A folder is a place for tasks when it holds the shape lists.
bool is_tasks_folder(const fs::path& folder) {
  std::error_code problem;
  return fs::is_regular_file(folder / "shapes.json", problem);
}

}  // namespace

Result<std::string> tasks_folder() {
  if (const char* root = std::getenv("STEPBENCH_ROOT"); root != nullptr && *root != '\0') {
    const fs::path folder = fs::path(root) / "tasks";
    if (is_tasks_folder(folder)) return fs::absolute(folder).lexically_normal().string();
    return Error{.code = ErrorCode::kNotFound,
                 .message = "STEPBENCH_ROOT does not name a StepBench tree",
                 .place = folder.string(),
                 .expected = "a folder with shapes.json",
                 .found = ""};
  }
  // Installed: PREFIX/bin/stepbench beside PREFIX/share/stepbench/tasks. Not installed: the tree it was built from.
  std::vector<fs::path> candidates;
  std::error_code problem;
  const fs::path self = fs::read_symlink("/proc/self/exe", problem);
  if (!problem) candidates.push_back(self.parent_path().parent_path() / "share" / "stepbench" / "tasks");
  candidates.push_back(fs::path(STEPBENCH_SOURCE_ROOT) / "tasks");
  for (const fs::path& folder : candidates) {
    if (is_tasks_folder(folder)) return folder.string();
  }
  return Error{.code = ErrorCode::kNotFound,
               .message = "the tasks are not where they were built or installed; set STEPBENCH_ROOT to the tree",
               .place = candidates.back().string(),
               .expected = "a folder with shapes.json",
               .found = ""};
}

Result<std::vector<std::string>> list_tasks() {
  const Result<std::string> folder = tasks_folder();
  if (!folder.ok()) return folder.error();
  std::vector<std::string> ids;
  std::error_code problem;
  for (fs::directory_iterator it(folder.value(), problem), end; !problem && it != end; it.increment(problem)) {
    std::error_code ignored;
    if (fs::is_regular_file(it->path() / "task.json", ignored)) ids.push_back(it->path().filename().string());
  }
  if (problem) {
    return Error{.code = ErrorCode::kIo,
                 .message = "a folder cannot be listed: " + problem.message(),
                 .place = folder.value(),
                 .expected = "",
                 .found = ""};
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

Result<TaskSpec> load_task(const std::string& id) {
  const Result<std::vector<std::string>> ids = list_tasks();
  if (!ids.ok()) return ids.error();
  if (std::find(ids.value().begin(), ids.value().end(), id) == ids.value().end()) {
    const std::vector<std::string_view> known(ids.value().begin(), ids.value().end());
    const std::string near = nearest_word(id, known);
    return Error{.code = ErrorCode::kNotFound,
                 .message = "no task has this name" + (near.empty() ? "" : ", perhaps \"" + near + "\" was meant"),
                 .place = "task \"" + id + "\"",
                 .expected = "one of " + joined(known),
                 .found = ""};
  }
  const Result<std::string> tasks = tasks_folder();
  if (!tasks.ok()) return tasks.error();
  const std::string folder = tasks.value() + "/" + id;
  const std::string path = folder + "/task.json";
  const Result<std::string> text = read_text_file(path);
  if (!text.ok()) return text.error();
  try {
    const auto json = parse_json(path, text.value());
    return read_task(JsonReader(json, path, ""), id, folder);
  } catch (JsonProblem& problem) {
    return std::move(problem.error);
  }
}

}  // namespace stepbench
