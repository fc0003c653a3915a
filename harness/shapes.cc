// Tensor lists by name (tasks/shapes.json) or literal, and the expansion of case groups into cases. It knows nothing of
// data or candidates.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "harness/json_reader.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

constexpr int64_t kMostElements = int64_t{1} << 46;  // of one tensor: far above any memory, far below overflow
constexpr int64_t kMostTensors = 1 << 20;

TensorShape checked_shape(const JsonReader& entry, std::vector<int64_t> dims) {
  int64_t n = 1;
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(n, dim, &n) || n > kMostElements)
      entry.fail("a tensor is too large", fmt::format("at most {} elements", kMostElements));
  }
  return make_shape(std::move(dims));
}

/// One entry of a layout: 5 or [5] or [64, 48] is a tensor, {"repeat": 12, "tensors": [...]} a repeated part.
void read_layout(const JsonReader& layout, std::vector<TensorShape>& out) {
  for (const JsonReader& entry : layout.items()) {
    if (entry.is_object()) {
      entry.only_keys({"repeat", "tensors"});
      const int64_t repeat = entry.at("repeat").integer(1, kMostTensors);
      std::vector<TensorShape> part;
      read_layout(entry.at("tensors"), part);
      if (static_cast<int64_t>(part.size()) * repeat > kMostTensors)
        entry.fail("a list is too long", fmt::format("at most {} tensors", kMostTensors));
      for (int64_t i = 0; i < repeat; ++i) out.insert(out.end(), part.begin(), part.end());
    } else if (entry.is_array()) {
      std::vector<int64_t> dims;
      for (const JsonReader& dim : entry.items()) dims.push_back(dim.integer(0, kMostElements));
      if (dims.empty() || dims.size() > 8) entry.fail("wrong number of dimensions", "1 to 8");
      out.push_back(checked_shape(entry, std::move(dims)));
    } else {
      out.push_back(checked_shape(entry, {entry.integer(0, kMostElements)}));
    }
    if (static_cast<int64_t>(out.size()) > kMostTensors)
      entry.fail("a list is too long", fmt::format("at most {} tensors", kMostTensors));
  }
}

Error bad_list(const std::string& name, std::string message, std::string expected) {
  return Error{.code = ErrorCode::kNotFound,
               .message = std::move(message),
               .place = "tensor list \"" + name + "\"",
               .expected = std::move(expected),
               .found = ""};
}

Result<std::vector<TensorShape>> literal_list(const std::string& text) {
  try {
    const auto json = parse_json("tensor list \"" + text + "\"", text);
    std::vector<TensorShape> out;
    read_layout(JsonReader(json, "tensor list \"" + text + "\"", ""), out);
    if (out.empty()) return bad_list(text, "a list has no tensor", "at least one size");
    return out;
  } catch (JsonProblem& problem) {
    return std::move(problem.error);
  }
}

Result<std::vector<TensorShape>> named_list(const std::string& name) {
  const Result<std::string> folder = tasks_folder();
  if (!folder.ok()) return folder.error();
  const std::string path = folder.value() + "/shapes.json";
  const Result<std::string> text = read_text_file(path);
  if (!text.ok()) return text.error();
  try {
    const auto json = parse_json(path, text.value());
    const JsonReader root(json, path, "");
    root.only_keys({"lists"});
    std::vector<std::string> names;
    for (const auto& [key, list] : root.at("lists").members()) {
      names.push_back(key);
      if (key != name) continue;
      list.only_keys({"title", "source", "tensors", "params", "layout"});
      std::vector<TensorShape> out;
      read_layout(list.at("layout"), out);
      int64_t params = 0;
      for (const TensorShape& shape : out) params += shape.n;
      const int64_t want_tensors = list.at("tensors").integer(1, kMostTensors);
      const int64_t want_params = list.at("params").integer(0, kMostElements);
      if (want_tensors != static_cast<int64_t>(out.size()))
        list.at("tensors").fail("the layout has another number of tensors", std::to_string(want_tensors),
                                std::to_string(out.size()));
      if (want_params != params)
        list.at("params").fail("the layout has another number of parameters", std::to_string(want_params),
                               std::to_string(params));
      return out;
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string near = nearest_word(name, known);
    return bad_list(name, "no tensor list has this name" + (near.empty() ? "" : ", perhaps \"" + near + "\" was meant"),
                    "one of " + joined(known));
  } catch (JsonProblem& problem) {
    return std::move(problem.error);
  }
}

/// A list's name as part of a case's name: no blanks, brackets or slashes, so that it survives a shell.
std::string short_name(const std::string& list) {
  if (list.empty() || list[0] != '[') {
    std::string out = list;
    const size_t slash = out.find('/');
    if (slash != std::string::npos) out.replace(slash, 1, "_div");
    return out;
  }
  // "[7,0,5]" -> "n7+0+5", "[[64,48],[5]]" -> "n64x48+5"
  std::string out = "n";
  int depth = 0;
  for (const char c : list) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c >= '0' && c <= '9') out += c;
    if (c == ',') out += depth == 1 ? '+' : 'x';
  }
  return out;
}

}  // namespace

TensorShape make_shape(std::vector<int64_t> dims) {
  TensorShape shape;
  shape.n = 1;
  for (const int64_t dim : dims) shape.n *= dim;
  shape.rows = dims.empty() ? 1 : dims[0];
  shape.cols = 1;
  for (size_t i = 1; i < dims.size(); ++i) shape.cols *= dims[i];
  shape.dims = std::move(dims);
  return shape;
}

int64_t buffer_elements(const BufferSpec& buffer, const TensorShape& shape) {
  if (buffer.shape == "n") return shape.n;
  if (buffer.shape == "rows") return shape.rows;
  if (buffer.shape == "cols") return shape.cols;
  if (buffer.shape == "rows*rows") return shape.rows * shape.rows;
  if (buffer.shape == "cols*cols") return shape.cols * shape.cols;
  if (buffer.shape == "n/256") return shape.n / 256 + (shape.n % 256 != 0 ? 1 : 0);
  SB_ASSERT(buffer.shape == "1");  // load_task refuses everything else
  return 1;
}

Result<std::vector<TensorShape>> tensor_list(const std::string& name) {
  if (!name.empty() && name[0] == '[') return literal_list(name);
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return named_list(name);

  int64_t divisor = 0;
  const char* first = name.data() + slash + 1;
  const char* last = name.data() + name.size();
  const auto [end, problem] = std::from_chars(first, last, divisor);
  if (problem != std::errc() || end != last || divisor < 1)
    return bad_list(name, "the divisor of a tensor list is wrong", "a positive integer after the slash");
  Result<std::vector<TensorShape>> full = named_list(name.substr(0, slash));
  if (!full.ok()) return full.error();
  std::vector<TensorShape> out;
  out.reserve(full.value().size());
  for (const TensorShape& shape : full.value()) {
    std::vector<int64_t> dims = shape.dims;
    for (int64_t& dim : dims) dim = dim / divisor + (dim % divisor != 0 ? 1 : 0);
    out.push_back(make_shape(std::move(dims)));
  }
  return out;
}

Result<std::vector<CaseSpec>> expand_cases(const TaskSpec& task, std::span<const CaseGroup> groups) {
  std::vector<CaseSpec> cases;
  std::set<std::string> names;
  for (const CaseGroup& group : groups) {
    SB_ASSERT(!group.first_steps.empty());  // load_task refuses it
    std::vector<std::vector<int32_t>> offsets = group.offsets;
    if (offsets.empty()) offsets.emplace_back();
    size_t next_step = 0;
    for (const std::string& list : group.lists) {
      Result<std::vector<TensorShape>> tensors = tensor_list(list);
      if (!tensors.ok()) return tensors.error();
      for (const std::string& family : group.families) {
        for (const std::vector<int32_t>& offset : offsets) {
          SB_ASSERT(offset.empty() || offset.size() == task.buffers.size());
          CaseSpec spec;
          spec.list = list;
          spec.tensors = tensors.value();
          spec.family = family;
          spec.first_step = group.first_steps[next_step++ % group.first_steps.size()];
          spec.steps = group.steps;
          spec.offset_elements = offset;
          spec.with_found_inf = group.with_found_inf;
          std::string name = fmt::format("{}/{}/t{}", short_name(list), family, spec.first_step);
          if (std::any_of(offset.begin(), offset.end(), [](int32_t o) { return o != 0; }))
            name += fmt::format("/off{}", fmt::join(offset, "."));
          if (spec.with_found_inf) name += "/inf";
          spec.name = name;
          for (int copy = 2; !names.insert(spec.name).second; ++copy) spec.name = fmt::format("{}/{}", name, copy);
          cases.push_back(std::move(spec));
        }
      }
    }
  }
  return cases;
}

}  // namespace stepbench
