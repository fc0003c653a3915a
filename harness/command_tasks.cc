// `stepbench tasks` and `stepbench show`: what can be computed, and all that an author needs to know about one task.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/commands.h"
#include "harness/record_folder.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxReadmeBytes = 1ull << 20;

std::string_view role_text(Role role) { return role == Role::kIn ? "in" : "inout"; }
std::string_view type_text(HyperType type) { return type == HyperType::kF32 ? "f32" : "i32"; }

void print_json(const Json& json) { fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace)); }

// ---------------------------------------------------------------------------------------------- a candidate to start
// from

/// Type of a kernel parameter for one argument of the default plan.
std::string parameter_of(const TaskSpec& task, const std::string& argument) {
  for (const BufferSpec& buffer : task.buffers)
    if (argument == buffer.name)
      return fmt::format("{}{}_t* {}", buffer.role == Role::kIn ? "const " : "", buffer.name, buffer.name);
  if (argument == "hyper") return "const Hyper* hyper";
  if (argument == "hyper.value") return "Hyper hyper";
  for (const HyperField& field : task.hyper)
    if (argument == field.name)
      return fmt::format("{} {}", field.type == HyperType::kF32 ? "float" : "int", field.name);
  return "int64_t " + argument;  // n, rows, cols, index ...
}

std::string minimal_candidate(const TaskSpec& task) {
  std::string parameters;
  std::string arguments;
  for (const std::string& argument : task.default_args) {
    parameters += (parameters.empty() ? "" : ", ") + parameter_of(task, argument);
    arguments += fmt::format("{}\"{}\"", arguments.empty() ? "" : ", ", argument);
  }
  return fmt::format(R"cu(/*stepbench
{{ "task": "{0}", "note": "one element per thread",
  "launches": [
    {{"for": "tensor", "kernel": "{0}_step", "grid": "ceil_div(n, 256)", "block": "256",
     "args": [{1}]}}
  ] }}
*/
#include <stepbench.cuh>

extern "C" __global__ void {0}_step({2}) {{
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  // the update of element i
}}
)cu",
                     task.id, arguments, parameters);
}

// ---------------------------------------------------------------------------------------------- one task as text

std::string_view rounding_text(Rounding rounding) {
  switch (rounding) {
    case Rounding::kNone: return "none";
    case Rounding::kNearest: return "nearest";
    case Rounding::kStochastic: return "stochastic";
  }
  return "";
}

std::string render_buffers(const TaskSpec& task) {
  std::string text =
      "Buffers, per tensor of the list (limit of one step: |got - expected| <= ratio * scale + ulp * ulp(expected);\n"
      "scale is the oracle's sum of the magnitudes that enter the element's movement):\n";
  for (const BufferSpec& buffer : task.buffers) {
    text += fmt::format("  {:<16} {:<5} {:<6} {:<5}", buffer.name, to_text(buffer.dtype), role_text(buffer.role),
                        buffer.shape);
    if (buffer.role == Role::kInOut)
      text += fmt::format(
          "  ratio {:.3g}, {:g} ulp; drift {}", buffer.tolerance.step_scale_ratio, buffer.tolerance.step_ulp,
          buffer.tolerance.drift_ratio > 0 ? fmt::format("{:.3g} of the movement", buffer.tolerance.drift_ratio)
                                           : std::string("not judged"));
    if (buffer.rounding != Rounding::kNone)
      text += fmt::format("; rounded ({}), the limit counts from what rounds to it", rounding_text(buffer.rounding));
    text += "\n";
  }
  return text;
}

std::string render_properties(const TaskSpec& task) {
  if (task.properties.empty()) return "";
  std::string text =
      "Properties, measured on every tensor after every judged step; more than the limit, or NaN, is wrong:\n";
  for (const PropertySpec& property : task.properties)
    text += fmt::format("  {:<22} of {:<16} at most {:<8g} {}\n", property.name, property.buffer, property.limit,
                        property.meaning);
  return text + "\n";
}

std::string render_hyper(const TaskSpec& task) {
  std::string text = "Hyper, in device memory, written before every step:\n";
  for (const HyperField& field : task.hyper) {
    text += fmt::format("  {:<22} {}  {}", field.name, type_text(field.type), field.meaning);
    if (!field.derived.empty() && field.derived != field.meaning) text += fmt::format(" [= {}]", field.derived);
    if (field.scheduled) text += " [changes every step]";
    text += "\n";
  }
  return text;
}

Result<std::string> render_suites(const TaskSpec& task) {
  std::string text = "Suites:\n";
  for (const auto& [name, suite] : task.suites) {
    text += fmt::format("  {:<10}", name);
    const std::pair<const char*, std::span<const CaseGroup>> checks[] = {
        {"edges", suite.edges}, {"families", suite.families}, {"determinism", suite.determinism}};
    for (const auto& [check, groups] : checks) {
      const Result<std::vector<CaseSpec>> cases = expand_cases(task, groups);
      if (!cases.ok()) return cases.error();
      text += fmt::format("{} cases of {}, ", cases.value().size(), check);
    }
    for (const DriftSpec& drift : suite.drift)
      text += fmt::format("drift over {} steps of {} ({} families) ", drift.steps, drift.list, drift.families.size());
    text.back() = '\n';
  }
  return text;
}

/// What a step must at least do, per tensor.
std::string render_floor(const TaskSpec& task) {
  std::string text = fmt::format("Floor: {:.4g} DRAM bytes per parameter and step\n", task.bytes_per_param);
  const std::pair<const char*, const std::string&> rows[] = {
      {"operations in fp32", task.flops.fp32},
      {"operations of products, which tensor cores may do", task.flops.tensor},
      {"the same for the gate of an impossible time", task.flops.tensor_gate}};
  for (const auto& [what, formula] : rows)
    if (!formula.empty()) text += fmt::format("  {}: {} per tensor\n", what, formula);
  return text;
}

Json task_to_json(const TaskSpec& task) {
  Json json;
  json["id"] = task.id;
  json["version"] = task.version;
  json["title"] = task.title;
  json["family"] = task.family;
  json["bytes_per_param"] = task.bytes_per_param;
  json["flops"] = {{"fp32", task.flops.fp32},
                   {"tensor", task.flops.tensor},
                   {"tensor_gate", task.flops.tensor_gate.empty() ? task.flops.tensor : task.flops.tensor_gate}};
  json["bitwise_deterministic"] = task.bitwise_deterministic;
  json["buffers"] = Json::array();
  for (const BufferSpec& buffer : task.buffers) {
    Json entry{{"name", buffer.name},
               {"dtype", to_text(buffer.dtype)},
               {"role", role_text(buffer.role)},
               {"shape", buffer.shape}};
    if (buffer.role == Role::kInOut) entry["rounding"] = rounding_text(buffer.rounding);
    if (buffer.role == Role::kInOut)
      entry["tolerance"] = {{"step_scale_ratio", buffer.tolerance.step_scale_ratio},
                            {"step_ulp", buffer.tolerance.step_ulp},
                            {"drift_ratio", buffer.tolerance.drift_ratio}};
    json["buffers"].push_back(entry);
  }
  json["hyper"] = Json::array();
  for (const HyperField& field : task.hyper)
    json["hyper"].push_back({{"name", field.name},
                             {"type", type_text(field.type)},
                             {"meaning", field.meaning},
                             {"default", field.default_value},
                             {"derived", field.derived},
                             {"scheduled", field.scheduled}});
  json["properties"] = Json::array();
  for (const PropertySpec& property : task.properties)
    json["properties"].push_back({{"name", property.name},
                                  {"buffer", property.buffer},
                                  {"limit", property.limit},
                                  {"meaning", property.meaning}});
  json["conventions"] = Json::object();
  for (const auto& [decision, choice] : task.conventions) json["conventions"][decision] = choice;
  json["input_families"] = task.input_families;
  json["suites"] = Json::array();
  for (const auto& suite : task.suites) json["suites"].push_back(suite.first);
  json["default_args"] = task.default_args;
  return json;
}

Result<std::vector<TaskSpec>> load_all() {
  const Result<std::vector<std::string>> ids = list_tasks();
  if (!ids.ok()) return ids.error();
  std::vector<TaskSpec> tasks;
  for (const std::string& id : ids.value()) {
    Result<TaskSpec> task = load_task(id);
    if (!task.ok()) return task.error();
    tasks.push_back(std::move(task).value());
  }
  return tasks;
}

}  // namespace

int run_tasks(const TasksArguments& arguments) {
  const Result<std::vector<TaskSpec>> tasks = load_all();
  if (!tasks.ok()) return report_error(tasks.error());
  if (arguments.json) {
    Json list = Json::array();
    for (const TaskSpec& task : tasks.value()) list.push_back(task_to_json(task));
    print_json(list);
    return kExitDone;
  }
  fmt::print("{:<21} {:<12} {:>7} {:>6}  {}\n", "task", "family", "B/param", "props", "title");
  for (const TaskSpec& task : tasks.value())
    fmt::print("{:<21} {:<12} {:>7.4g} {:>6}  {}\n", task.id, task.family, task.bytes_per_param,
               task.properties.empty() ? "-" : fmt::format("{}", task.properties.size()), task.title);
  fmt::print(
      "\n`stepbench show TASK` prints everything an author needs. B/param: least DRAM bytes per parameter and step;\n"
      "props: properties that are measured beside the comparison with the oracle.\n");
  return kExitDone;
}

int run_show(const ShowArguments& arguments) {
  const Result<TaskSpec> loaded = load_task(arguments.task);
  if (!loaded.ok()) return report_error(loaded.error());
  const TaskSpec& task = loaded.value();
  const Result<std::string> readme = read_file(task.folder + "/README.md", kMaxReadmeBytes);
  if (arguments.json) {
    Json json = task_to_json(task);
    json["header"] = task_header(task);
    json["candidate"] = minimal_candidate(task);
    json["readme"] = readme.ok() ? readme.value() : "";
    print_json(json);
    return kExitDone;
  }
  const Result<std::string> suites = render_suites(task);
  if (!suites.ok()) return report_error(suites.error());
  fmt::print("{}: {} (version {}, family {})\n\n", task.id, task.title, task.version, task.family);
  if (readme.ok()) fmt::print("{}\n", readme.value());
  fmt::print("{}\n", render_floor(task));
  fmt::print("{}\n{}{}\n", render_buffers(task), render_properties(task), render_hyper(task));
  fmt::print("Conventions:\n");
  for (const auto& [decision, choice] : task.conventions) fmt::print("  {}: {}\n", decision, choice);
  fmt::print("\n{}\n", suites.value());
  fmt::print("<stepbench.cuh> for this task:\n\n{}\n", task_header(task));
  fmt::print("A complete candidate to start from:\n\n{}", minimal_candidate(task));
  return kExitDone;
}

}  // namespace stepbench
