// EvalRecord <-> JSON, record_version 3 (harness/README.md documents it field by field).
//
// The fields of every struct are listed once, in `fields()`; a Writer and a strict Reader walk the same list, so a
// field cannot be written and forgotten in reading: that is why both are in one long file. It does not touch the disk:
// record_folder.cc does.
#include "harness/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/stages.h"

namespace stepbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRecordVersion = 3;
constexpr int kOldestVersion = 1;
constexpr int kMaxNesting = 100;   // brackets in a record's text; its own fields need fewer than 60
constexpr int kMaxPlanDepth = 16;  // groups in groups; the plan reader allows fewer

template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

template <class A, Is<PlanGemm> T>
void fields(A& a, T& gemm) {
  a("m", gemm.m);
  a("n", gemm.n);
  a("k", gemm.k);
  a("a", gemm.a);
  a("b", gemm.b);
  a("c", gemm.c);
  a("d", gemm.d);
  a("transpose_a", gemm.transpose_a);
  a("transpose_b", gemm.transpose_b);
  a("inputs", gemm.inputs);
  a("output", gemm.output);
  a("alpha", gemm.alpha);
  a("beta", gemm.beta);
  a("batch", gemm.batch);
  a("stride_a", gemm.stride_a);
  a("stride_b", gemm.stride_b);
  a("stride_c", gemm.stride_c);
  a("stride_d", gemm.stride_d);
}

template <class A, Is<PlanLaunch> T>
void fields(A& a, T& launch) {
  a("for", launch.each);
  a("pointer", launch.pointer);
  a("kernel", launch.kernel);
  a("grid", launch.grid);
  a("block", launch.block);
  a("cluster", launch.cluster);
  a("shared_bytes", launch.shared_bytes);
  a("args", launch.args);
  a("library", launch.library);
  // Written for library calls alone, so that the records of all other plans stay as they are.
  if (!launch.library.empty()) a.optional("gemm", launch.gemm);
  a("repeat", launch.repeat);
  a("launches", launch.launches);
}

template <class A, Is<Plan> T>
void fields(A& a, T& plan) {
  a("defines", plan.defines);
  a("tunables", plan.tunables);
  a("options", plan.options);
  a("scratch", plan.scratch);
  a("launches", plan.launches);
}

template <class A, Is<Candidate> T>
void fields(A& a, T& candidate) {
  a("path", candidate.path);
  a("task", candidate.task);
  a("note", candidate.note);
  a("sha256", candidate.sha256);
  a("is_ptx", candidate.is_ptx);
  a("default_plan", candidate.default_plan);
  a("plan_line", candidate.plan_line);
  a("plan", candidate.plan);
  a("plan_text", candidate.plan_text);
  a("source", candidate.source);
}

template <class A, Is<Environment> T>
void fields(A& a, T& environment) {
  a("stepbench_version", environment.stepbench_version);
  a("device", environment.device);
  a("device_detail", environment.device_detail);
  a("compiler", environment.compiler);
  a("host", environment.host);
  a("os", environment.os);
  a.optional("driver", environment.driver);
  a.optional("gpu_uuid", environment.gpu_uuid);
  a.optional("sm_clock_mhz", environment.sm_clock_mhz);
  a.optional("power_limit_w", environment.power_limit_w);
  a.optional("temperature_c", environment.temperature_c);
  a.optional("other_processes", environment.other_processes);
}

template <class A, Is<Calibration> T>
void fields(A& a, T& calibration) {
  a("gpu_uuid", calibration.gpu_uuid);
  a("measured_utc", calibration.measured_utc);
  a("read_bytes_per_s", calibration.read_bytes_per_s);
  a("copy_bytes_per_s", calibration.copy_bytes_per_s);
  a("launch_ns", calibration.launch_ns);
  a("l2_bytes", calibration.l2_bytes);
  a.optional("fp32_flops_per_s", calibration.fp32_flops_per_s);
  a.optional("fp32_sm_mhz", calibration.fp32_sm_mhz);
  a.optional("tensor_flops_per_s", calibration.tensor_flops_per_s);
  a.optional("tensor_sm_mhz", calibration.tensor_sm_mhz);
  a.optional("highest_sm_mhz", calibration.highest_sm_mhz);
}

template <class A, Is<TimingPair> T>
void fields(A& a, T& pair) {
  a("baseline_ns", pair.baseline_ns);
  a("candidate_ns", pair.candidate_ns);
  a("baseline_counter_ns", pair.baseline_counter_ns);
  a("candidate_counter_ns", pair.candidate_counter_ns);
  a("baseline_sm_mhz", pair.baseline_sm_mhz);
  a("candidate_sm_mhz", pair.candidate_sm_mhz);
  a("candidate_first", pair.candidate_first);
  a("dropped", pair.dropped);
}

template <class A, Is<TimingReport> T>
void fields(A& a, T& report) {
  a("list", report.list);
  a("hidden", report.hidden);
  a("tensors", report.tensors);
  a("params", report.params);
  a("baseline", report.baseline);
  a("baseline_sha256", report.baseline_sha256);
  a("method", report.method);
  a("baseline_ns", report.baseline_ns);
  a("candidate_ns", report.candidate_ns);
  a("speedup", report.speedup);
  a("speedup_low", report.speedup_low);
  a("speedup_high", report.speedup_high);
  a("word", report.word);
  a("floor_ns", report.floor_ns);
  a.optional("floor_by", report.floor_by);  // before version 3 it was always memory
  a("gate_ns", report.gate_ns);
  a("floor_ratio", report.floor_ratio);
  a("verified_steps", report.verified_steps);
  a("verified_elements", report.verified_elements);
  a("pairs", report.pairs);
}

template <class A, Is<Submission> T>
void fields(A& a, T& submission) {
  a("name", submission.name);
  a("model", submission.model);
  a("note", submission.note);
  a("round", submission.round);
  a("prompt_tokens", submission.prompt_tokens);
  a("completion_tokens", submission.completion_tokens);
  a("cost_usd", submission.cost_usd);
}

template <class A, Is<Failure> T>
void fields(A& a, T& failure) {
  a("verdict", failure.verdict);
  a("message", failure.message);
  a("place", failure.place);
  a("check", failure.check);
  a("case", failure.case_name);
  a.hex("seed", failure.seed);
  a("step", failure.step);
  a("buffer", failure.buffer);
  a("tensor", failure.tensor);
  a("element", failure.element);
  a("expected", failure.expected);
  a("got", failure.got);
  a("error_ratio", failure.error_ratio);
  a("detail", failure.detail);
}

template <class A, Is<CaseReport> T>
void fields(A& a, T& report) {
  a("check", report.check);
  a("case", report.case_name);
  a("verdict", report.verdict);
  a("elements_checked", report.elements_checked);
  a("worst_error_ratio", report.worst_error_ratio);
  a("worst_buffer", report.worst_buffer);
  a("wall_ms", report.wall_ms);
}

template <class A, Is<DriftPoint> T>
void fields(A& a, T& point) {
  a("step", point.step);
  a("rms_ratio", point.rms_ratio);
  a("bias_ratio", point.bias_ratio);
  a("bias_sigma", point.bias_sigma);
  a.optional("error_ratio", point.error_ratio);  // before December 2026 there was none
}

template <class A, Is<DriftCurve> T>
void fields(A& a, T& curve) {
  a("case", curve.case_name);
  a("buffer", curve.buffer);
  a("growth_exponent", curve.growth_exponent);
  a("limit_ratio", curve.limit_ratio);
  a("points", curve.points);
}

template <class A, Is<KernelResources> T>
void fields(A& a, T& kernel) {
  a("entry", kernel.entry);
  a("registers", kernel.registers);
  a("spill_store_bytes", kernel.spill_store_bytes);
  a("spill_load_bytes", kernel.spill_load_bytes);
  a("stack_bytes", kernel.stack_bytes);
  a("shared_bytes", kernel.shared_bytes);
  a("constant_bytes", kernel.constant_bytes);
}

template <class A, Is<Counters> T>
void fields(A& a, T& counters) {
  a("launches", counters.launches);
  a("warp_instructions", counters.warp_instructions);
  a("lane_instructions", counters.lane_instructions);
  a("global_load_bytes", counters.global_load_bytes);
  a("global_store_bytes", counters.global_store_bytes);
  a("global_load_sectors", counters.global_load_sectors);
  a("global_store_sectors", counters.global_store_sectors);
  a("shared_wavefronts", counters.shared_wavefronts);
  a("divergent_branches", counters.divergent_branches);
  a("barriers", counters.barriers);
  a("atomics", counters.atomics);
  a("local_bytes", counters.local_bytes);
}

template <class A, Is<EvalRecord> T>
void fields(A& a, T& record) {
  a("record_version", record.record_version);
  a("id", record.id);
  a("created_utc", record.created_utc);
  a("task", record.task);
  a("task_version", record.task_version);
  a("suite", record.suite);
  a("salt", record.salt);
  a("verdict", record.verdict);
  a("failure", record.failure);
  a("replay_command", record.replay_command);
  a("environment", record.environment);
  a("cases", record.cases);
  a("drift", record.drift);
  a("resources", record.resources);
  a("compile_log", record.compile_log);
  a("notes", record.notes);
  a("counters", record.counters);
  a("traffic_params", record.traffic_params);
  a("modelled_bytes_per_param", record.modelled_bytes_per_param);
  a("ideal_bytes_per_param", record.ideal_bytes_per_param);
  a("wall_ms", record.wall_ms);
  a("stage_ms", record.stage_ms);
  a.optional("submission", record.submission);
  a.optional("calibration", record.calibration);
  a.optional("timing", record.timing);
  a("candidate", record.candidate);
}

constexpr std::string_view kLaunchForNames[] = {"step", "tensor", "shape"};  // order of LaunchFor

class Writer {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    object_[name] = encode(value);
  }
  template <class T>
  void optional(const char* name, const T& value) {
    (*this)(name, value);
  }
  void hex(const char* name, uint64_t value) { object_[name] = hex16(value); }
  Json take() { return std::move(object_); }

  static Json encode(const std::string& text) { return text; }
  static Json encode(bool value) { return value; }
  template <std::integral T>
  static Json encode(T value) {
    return value;
  }
  static Json encode(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;  // written with as many digits as it takes to read the same number back, 17 at most
  }
  static Json encode(Verdict verdict) { return std::string(to_text(verdict)); }
  static Json encode(SpeedWord word) { return std::string(to_text(word)); }
  static Json encode(FloorBy by) { return std::string(to_text(by)); }
  static Json encode(DType dtype) { return std::string(to_text(dtype)); }
  static Json encode(LaunchFor each) { return std::string(kLaunchForNames[static_cast<size_t>(each)]); }
  static Json encode(const std::pair<std::string, std::string>& pair) {
    return Json::array({Json(pair.first), Json(pair.second)});
  }
  template <class T>
  static Json encode(const std::optional<T>& value) {
    return value ? encode(*value) : Json(nullptr);
  }
  template <class T, size_t N>
  static Json encode(const std::array<T, N>& values) {
    return encode_list(values);
  }
  template <class T>
  static Json encode(const std::vector<T>& values) {
    return encode_list(values);
  }
  template <class T>
  static Json encode(const std::map<std::string, T>& values) {
    Json object = Json::object();
    for (const auto& [name, value] : values) object[name] = encode(value);
    return object;
  }
  template <class T>
  requires std::is_class_v<T>
  static Json encode(const T& value) {
    Writer writer;
    fields(writer, value);
    return writer.take();
  }

 private:
  template <class Range>
  static Json encode_list(const Range& values) {
    Json list = Json::array();
    for (const auto& value : values) list.push_back(encode(value));
    return list;
  }

  Json object_ = Json::object();
};

/// Thrown and caught in this file only.
struct InvalidField {
  Error error;
};

class Reader {
 public:
  Reader(const Json& object, std::string pointer, int depth)
      : object_(object), pointer_(std::move(pointer)), depth_(depth) {
    if (!object.is_object()) fail(pointer_, "wrong type", "an object", object);
  }

  template <class T>
  void operator()(const char* name, T& value) {
    decode(at(name), value, pointer_ + "/" + name);
  }
  /// A field that older versions lack: what is not there keeps its default.
  template <class T>
  void optional(const char* name, T& value) {
    if (object_.contains(name)) (*this)(name, value);
  }
  void hex(const char* name, uint64_t& value) {
    std::string text;
    (*this)(name, text);
    const Result<uint64_t> parsed = parse_hex(text);
    if (!parsed.ok() || text.size() != 16) fail(pointer_ + "/" + name, "wrong value", "16 hex digits", Json(text));
    value = parsed.value();
  }

 private:
  [[noreturn]] static void fail(const std::string& pointer, std::string message, std::string expected,
                                const Json& found) {
    std::string text = found.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > 60) text = replace_invalid_utf8(text.substr(0, 57)) + "...";
    throw InvalidField{
        {ErrorCode::kInvalidRecord, std::move(message), pointer.empty() ? "/" : pointer, std::move(expected), text}};
  }

  const Json& at(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end())
      throw InvalidField{{ErrorCode::kInvalidRecord, "missing field", pointer_ + "/" + name, "", ""}};
    return *found;
  }

  void decode(const Json& json, std::string& value, const std::string& pointer) {
    if (!json.is_string()) fail(pointer, "wrong type", "a string", json);
    value = json.get<std::string>();
  }
  void decode(const Json& json, bool& value, const std::string& pointer) {
    if (!json.is_boolean()) fail(pointer, "wrong type", "true or false", json);
    value = json.get<bool>();
  }
  template <std::signed_integral T>
  void decode(const Json& json, T& value, const std::string& pointer) {
    if (!json.is_number_integer()) fail(pointer, "wrong type", "an integer", json);
    const bool too_big =
        json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<T>::max());
    if (too_big || json.get<int64_t>() < std::numeric_limits<T>::min())
      fail(pointer, "number out of range", fmt::format("a {}-bit integer", 8 * sizeof(T)), json);
    value = static_cast<T>(json.get<int64_t>());
  }
  void decode(const Json& json, uint64_t& value, const std::string& pointer) {
    if (!json.is_number_unsigned()) fail(pointer, "wrong type", "an integer that is not negative", json);
    value = json.get<uint64_t>();
  }
  void decode(const Json& json, double& value, const std::string& pointer) {
    if (json.is_number()) {
      value = json.get<double>();
      return;
    }
    const std::string text = json.is_string() ? json.get<std::string>() : "";
    if (text == "nan")
      value = std::numeric_limits<double>::quiet_NaN();
    else if (text == "inf")
      value = std::numeric_limits<double>::infinity();
    else if (text == "-inf")
      value = -std::numeric_limits<double>::infinity();
    else
      fail(pointer, "wrong type", "a number, \"nan\", \"inf\" or \"-inf\"", json);
  }
  void decode(const Json& json, Verdict& value, const std::string& pointer) {
    const auto verdict = json.is_string() ? verdict_from_text(json.get<std::string>()) : std::nullopt;
    if (!verdict) fail(pointer, "wrong value", "a verdict", json);
    value = *verdict;
  }
  void decode(const Json& json, SpeedWord& value, const std::string& pointer) {
    const auto word = json.is_string() ? speed_word_from_text(json.get<std::string>()) : std::nullopt;
    if (!word) fail(pointer, "wrong value", "faster, slower, same or undecided", json);
    value = *word;
  }
  void decode(const Json& json, FloorBy& value, const std::string& pointer) {
    const auto by = json.is_string() ? floor_by_from_text(json.get<std::string>()) : std::nullopt;
    if (!by) fail(pointer, "wrong value", "memory, fp32 or tensor", json);
    value = *by;
  }
  void decode(const Json& json, DType& value, const std::string& pointer) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kU8, DType::kI32, DType::kI16}) {
      if (json != Json(std::string(to_text(dtype)))) continue;
      value = dtype;
      return;
    }
    fail(pointer, "wrong value", "a type of numbers", json);
  }
  void decode(const Json& json, LaunchFor& value, const std::string& pointer) {
    for (size_t i = 0; i < std::size(kLaunchForNames); ++i) {
      if (json != Json(std::string(kLaunchForNames[i]))) continue;
      value = static_cast<LaunchFor>(i);
      return;
    }
    fail(pointer, "wrong value", "step, tensor or shape", json);
  }
  void decode(const Json& json, std::pair<std::string, std::string>& value, const std::string& pointer) {
    if (!json.is_array() || json.size() != 2) fail(pointer, "wrong type", "a list of a name and a text", json);
    decode(json[0], value.first, pointer + "/0");
    decode(json[1], value.second, pointer + "/1");
  }
  template <class T>
  void decode(const Json& json, std::optional<T>& value, const std::string& pointer) {
    value.reset();
    if (!json.is_null()) decode(json, value.emplace(), pointer);
  }
  template <class T, size_t N>
  void decode(const Json& json, std::array<T, N>& values, const std::string& pointer) {
    if (!json.is_array() || json.size() != N) fail(pointer, "wrong type", fmt::format("a list of {}", N), json);
    for (size_t i = 0; i < N; ++i) decode(json[i], values[i], fmt::format("{}/{}", pointer, i));
  }
  template <class T>
  void decode(const Json& json, std::vector<T>& values, const std::string& pointer) {
    if (!json.is_array()) fail(pointer, "wrong type", "a list", json);
    values.clear();
    for (size_t i = 0; i < json.size(); ++i) decode(json[i], values.emplace_back(), fmt::format("{}/{}", pointer, i));
  }
  template <class T>
  void decode(const Json& json, std::map<std::string, T>& values, const std::string& pointer) {
    if (!json.is_object()) fail(pointer, "wrong type", "an object", json);
    values.clear();
    for (const auto& [name, value] : json.items()) decode(value, values[name], pointer + "/" + name);
  }
  template <class T>
  requires std::is_class_v<T>
  void decode(const Json& json, T& value, const std::string& pointer) {
    const int depth = depth_ + (Is<T, PlanLaunch> ? 1 : 0);
    if (depth > kMaxPlanDepth)
      throw InvalidField{{ErrorCode::kInvalidRecord, "groups of launches nested too deep", pointer,
                          fmt::format("{} levels at most", kMaxPlanDepth), ""}};
    Reader reader(json, pointer, depth);
    fields(reader, value);
  }

  const Json& object_;
  std::string pointer_;
  int depth_;
};

void require_consistent(const EvalRecord& record) {
  const bool passed = record.verdict == Verdict::kPassed;
  if (passed && record.failure)
    throw InvalidField{
        {ErrorCode::kInvalidRecord, "a passed record carries a failure", "/failure", "null", "an object"}};
  if (!passed && !record.failure)
    throw InvalidField{
        {ErrorCode::kInvalidRecord, "a record that is not passed lacks its failure", "/failure", "an object", "null"}};
  if (record.failure && record.failure->verdict != record.verdict)
    throw InvalidField{{ErrorCode::kInvalidRecord, "two verdicts in one record", "/failure/verdict",
                        std::string(to_text(record.verdict)), std::string(to_text(record.failure->verdict))}};
}

template <class T, class Check>
Result<T> read(std::string_view text, const Check& check) {
  if (const Result<void> shallow = check_nesting(text); !shallow.ok()) return shallow.error();
  try {
    const Json json = Json::parse(text);
    T value;
    Reader reader(json, "", 0);
    check.before(json);
    fields(reader, value);
    check.after(value);
    return value;
  } catch (const InvalidField& invalid) {
    return invalid.error;
  } catch (const Json::parse_error& error) {
    return Error{ErrorCode::kInvalidRecord, "not a JSON text", fmt::format("byte {}", error.byte), "a record", ""};
  } catch (const Json::exception& error) {
    return Error{ErrorCode::kInvalidRecord, error.what(), "", "a record", ""};
  }
}

struct RecordChecks {
  static void before(const Json& json) {
    const auto version = json.find("record_version");
    if (version == json.end())
      throw InvalidField{{ErrorCode::kInvalidRecord, "missing field", "/record_version", "", ""}};
    const bool known = version->is_number_integer() && *version >= kOldestVersion && *version <= kRecordVersion;
    if (!known)
      throw InvalidField{{ErrorCode::kInvalidRecord, "unknown record_version", "/record_version",
                          fmt::format("{} to {}", kOldestVersion, kRecordVersion),
                          version->dump(-1, ' ', false, Json::error_handler_t::replace)}};
  }
  static void after(const EvalRecord& record) { require_consistent(record); }
};

struct NoChecks {
  static void before(const Json&) {}
  static void after(const Candidate&) {}
};

}  // namespace

std::string record_to_json(const EvalRecord& record, int indent) {
  return Writer::encode(record).dump(indent, ' ', false, Json::error_handler_t::replace);
}

Result<EvalRecord> record_from_json(std::string_view text) { return read<EvalRecord>(text, RecordChecks()); }

std::string candidate_to_json(const Candidate& candidate) {
  return Writer::encode(candidate).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Candidate> candidate_from_json(std::string_view text) { return read<Candidate>(text, NoChecks()); }

Result<void> check_nesting(std::string_view json) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  if (deepest <= kMaxNesting) return {};
  return Error{ErrorCode::kInvalidRecord, "nested too deep", "", fmt::format("{} levels at most", kMaxNesting),
               std::to_string(deepest)};
}

std::string hex16(uint64_t value) { return fmt::format("{:016x}", value); }

Result<uint64_t> parse_hex(std::string_view text) {
  uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || text.size() > 16 || text[0] == '-' || status != std::errc() || end != text.data() + text.size())
    return Error{ErrorCode::kUsage, "not a hexadecimal number", "", "1 to 16 hex digits", replace_invalid_utf8(text)};
  return value;
}

std::string replace_invalid_utf8(std::string_view text) {
  const std::string quoted = Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

}  // namespace stepbench
