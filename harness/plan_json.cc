// The plan's JSON -> Plan. Events of nlohmann's parser build a small tree of our own, because the library's would keep
// the last of two equal keys and lose the spelling of numbers; the tree is then read key by key, so that every message
// has a JSON pointer. Tree and reader stay in one file, hence its length, because the library's header is confined to
// it.
#include "harness/plan_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "harness/plan_messages.h"
#include "harness/stages.h"

namespace stepbench {

namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxStringBytes = 4096;
constexpr size_t kMaxItems = 4096;    ///< of one array or object
constexpr size_t kMaxEntries = 1000;  ///< launches and groups of a plan
constexpr size_t kMaxArguments = 1024;
constexpr int64_t kMaxInteger = int64_t{1} << 53;

enum class NodeType : uint8_t { kNull, kBool, kInteger, kFloat, kString, kArray, kObject };

struct Member;

struct Node {
  NodeType type = NodeType::kNull;
  std::string text;  ///< string's value, number's spelling, "true" or "false"
  std::vector<Node> items;
  std::vector<Member> members;
};

struct Member {
  std::string name;
  Node value;
};

const char* word_of(NodeType type) {
  switch (type) {
    case NodeType::kNull: return "null";
    case NodeType::kBool: return "a boolean";
    case NodeType::kInteger: return "an integer";
    case NodeType::kFloat: return "a number with a fraction or exponent";
    case NodeType::kString: return "a string";
    case NodeType::kArray: return "a list";
    case NodeType::kObject: return "an object";
  }
  return "";
}

/// RFC 6901.
std::string pointer_step(const std::string& parent, std::string_view key) {
  std::string pointer = parent + "/";
  for (const char c : shortened(key)) {
    if (c == '~')
      pointer += "~0";
    else if (c == '/')
      pointer += "~1";
    else
      pointer += c;
  }
  return pointer;
}
std::string pointer_step(const std::string& parent, size_t index) { return fmt::format("{}/{}", parent, index); }

/// Receives the parser's events. A false return stops it; the reason is then in `problem` or in the syntax fields.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Node root;
  bool has_problem = false;
  std::string problem_pointer, problem;
  bool has_syntax_error = false;
  size_t syntax_position = 0;
  std::string syntax_token, syntax_message;

  bool null() override { return put({NodeType::kNull, "null", {}, {}}); }
  bool boolean(bool value) override { return put({NodeType::kBool, value ? "true" : "false", {}, {}}); }
  bool number_integer(number_integer_t value) override { return integer(value < -kMaxInteger, std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return integer(value > static_cast<number_unsigned_t>(kMaxInteger), std::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& spelling) override {
    if (spelling.find_first_of(".eE") == std::string::npos) return integer(true, spelling);
    if (!std::isfinite(value)) return refuse("the number is not finite");
    if (spelling.size() > 64) return refuse("the number has more than 64 characters");
    return put({NodeType::kFloat, spelling, {}, {}});
  }
  bool string(string_t& value) override {
    if (value.size() > kMaxStringBytes)
      return refuse(fmt::format("the string is longer than {} bytes", kMaxStringBytes));
    return put({NodeType::kString, value, {}, {}});
  }
  bool binary(binary_t&) override { return refuse("binary values are not JSON"); }
  bool start_object(size_t) override { return open({NodeType::kObject, "", {}, {}}); }
  bool start_array(size_t) override { return open({NodeType::kArray, "", {}, {}}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    Node& object = *open_.back();
    for (const auto& [known, value] : object.members) {
      if (known != name) continue;
      key_ = name;
      return refuse(fmt::format("the key `{}` appears twice", shortened(name)));
    }
    key_ = name;
    return true;
  }
  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    has_syntax_error = true;
    syntax_position = position;
    syntax_token = token;
    syntax_message = error.what();
    return false;
  }

 private:
  bool integer(bool beyond, const std::string& spelling) {
    if (beyond) return refuse(fmt::format("the integer {} is beyond 2^53", shortened(spelling, 40)));
    return put({NodeType::kInteger, spelling, {}, {}});
  }
  std::string here() const {
    std::string pointer;
    for (size_t i = 1; i < path_.size(); ++i) pointer += path_[i];
    return open_.empty() ? pointer : pointer + step();
  }
  std::string step() const {
    if (open_.empty()) return "";
    return open_.back()->type == NodeType::kArray ? pointer_step("", open_.back()->items.size())
                                                  : pointer_step("", key_);
  }
  bool refuse(std::string message) {
    has_problem = true;
    problem_pointer = here();
    problem = std::move(message);
    return false;
  }
  Node* place(Node node) {
    if (open_.empty()) {
      root = std::move(node);
      return &root;
    }
    Node& parent = *open_.back();
    if (parent.type == NodeType::kArray) {
      parent.items.push_back(std::move(node));
      return &parent.items.back();
    }
    parent.members.push_back({key_, std::move(node)});
    return &parent.members.back().value;
  }
  bool put(Node node) {
    if (!open_.empty() && open_.back()->items.size() + open_.back()->members.size() >= kMaxItems)
      return refuse(fmt::format("more than {} entries", kMaxItems));
    place(std::move(node));
    return true;
  }
  // A container's children are only added while it is the innermost open one, so the pointers into the tree stay valid.
  bool open(Node node) {
    if (open_.size() >= kMaxDepth) return refuse(fmt::format("nested more than {} deep", kMaxDepth));
    if (!open_.empty() && open_.back()->items.size() + open_.back()->members.size() >= kMaxItems)
      return refuse(fmt::format("more than {} entries", kMaxItems));
    path_.push_back(step());
    open_.push_back(place(std::move(node)));
    return true;
  }
  bool close() {
    open_.pop_back();
    path_.pop_back();
    return true;
  }

  std::vector<Node*> open_;
  std::vector<std::string> path_;
  std::string key_;
};

/// Line and column (characters, both from 1) of a byte of the file.
std::pair<size_t, size_t> line_and_column(std::string_view file, size_t offset) {
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < offset && i < file.size(); ++i) {
    if (file[i] == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(file[i]) & 0xC0) != 0x80) {
      ++column;
    }
  }
  return {line, column};
}

/// The node as JSON without spaces, keys in the order given.
std::string json_text(const Node& node) {
  std::string text;
  switch (node.type) {
    case NodeType::kNull:
    case NodeType::kBool:
    case NodeType::kInteger:
    case NodeType::kFloat: return node.text;
    case NodeType::kString: return nlohmann::json(node.text).dump();
    case NodeType::kArray:
      for (const Node& item : node.items) text += (text.empty() ? "" : ",") + json_text(item);
      return "[" + text + "]";
    case NodeType::kObject:
      for (const auto& [name, value] : node.members)
        text += fmt::format("{}{}:{}", text.empty() ? "" : ",", nlohmann::json(name).dump(), json_text(value));
      return "{" + text + "}";
  }
  return text;
}

/// Reads the tree. The first problem stops the reading of its level; what was read before stays unused.
class PlanReader {
 public:
  explicit PlanReader(const std::string& path) : path_(path) {}
  std::optional<Failure> failure;

  ParsedPlan read(const Node& root) {
    ParsedPlan parsed;
    if (root.type != NodeType::kObject) {
      wrong("", fmt::format("the plan must be an object, found {}", word_of(root.type)));
      return parsed;
    }
    static const std::vector<std::string> kKeys = {"task",    "note",    "defines", "tunables",
                                                   "options", "scratch", "launches"};
    if (!known_keys(root, "", kKeys)) return parsed;
    for (const auto& [key, value] : root.members) {
      const std::string pointer = pointer_step("", key);
      if (key == "task")
        parsed.task = task(value, pointer);
      else if (key == "note")
        parsed.note = text(value, pointer);
      else if (key == "defines")
        parsed.plan.defines = defines(value, pointer);
      else if (key == "tunables")
        tunables(value, pointer, parsed.plan);
      else if (key == "options")
        parsed.plan.options = options(value, pointer);
      else if (key == "scratch")
        parsed.plan.scratch = scratch(value, pointer);
      else if (key == "launches") {
        parsed.has_launches = true;
        parsed.plan.launches = launches(value, pointer);
      }
      if (failure) return parsed;
    }
    for (const auto& [name, values] : parsed.plan.tunables) {
      bool found = false;
      for (const auto& [define, value] : parsed.plan.defines) found = found || define == name;
      if (found) continue;
      wrong("/tunables/" + name, fmt::format("tunable `{}` needs a default in \"defines\"", name));
      return parsed;
    }
    return parsed;
  }

  PlanTensorMap tensor_map(const Node& node, const std::string& pointer) {
    PlanTensorMap map;
    if (node.type != NodeType::kObject) {
      wrong_type(pointer, "an object", node);
      return map;
    }
    static const std::vector<std::string> kKeys = {
        "of",         "dtype",   "dims", "strides_bytes", "box", "element_strides",
        "interleave", "swizzle", "l2",   "oob",           "at",  "or_null"};
    if (!known_keys(node, pointer, kKeys)) return map;
    for (const char* required : {"of", "dims", "box"})
      if (member(node, required) == nullptr) wrong(pointer, fmt::format("the tensor map has no \"{}\"", required));
    for (const auto& [key, value] : node.members) {
      if (failure) return map;
      const std::string at = pointer_step(pointer, key);
      if (key == "of") map.of = text(value, at);
      if (key == "dtype") map.dtype = static_cast<DType>(word(value, at, kDTypes));
      if (key == "dims") map.dims = expressions(value, at);
      if (key == "strides_bytes") map.strides_bytes = expressions(value, at);
      if (key == "box") map.box = expressions(value, at);
      if (key == "element_strides") map.element_strides = expressions(value, at);
      if (key == "interleave" && text(value, at) != "none" && !failure)
        wrong(at, fmt::format("only `none` is offered, found `{}`", shortened(value.text)));
      if (key == "swizzle") map.swizzle = static_cast<TensorMapSwizzle>(word(value, at, kSwizzles));
      if (key == "l2") map.l2 = static_cast<TensorMapL2>(word(value, at, kL2));
      if (key == "oob") map.nan_outside = word(value, at, kOutside) == 1;
      if (key == "at") map.at = expression(value, at);
      if (key == "or_null") {
        if (value.type != NodeType::kBool) wrong_type(at, "true or false", value);
        map.or_null = value.text == "true";
      }
    }
    const size_t rank = map.dims.size();
    const auto as_long = [&](const char* key, const std::vector<std::string>& list, size_t length) {
      if (member(node, key) != nullptr && list.size() != length)
        wrong(pointer_step(pointer, key),
              fmt::format("{} numbers are expected for {} dims, found {}", length, rank, list.size()));
    };
    if (!failure && (rank < 1 || rank > TensorMapSpec::kMaxRank))
      wrong(pointer + "/dims", fmt::format("1 to {} dims are expected, found {}", TensorMapSpec::kMaxRank, rank));
    as_long("strides_bytes", map.strides_bytes, rank - 1);
    as_long("box", map.box, rank);
    as_long("element_strides", map.element_strides, rank);
    return map;
  }

 private:
  // Words in the order of their enumerations.
  static constexpr std::string_view kDTypes[] = {"f32", "bf16", "f16", "u8", "i32", "i16"};
  static constexpr std::string_view kSwizzles[] = {"none", "32B", "64B", "128B"};
  static constexpr std::string_view kL2[] = {"none", "64B", "128B", "256B"};
  static constexpr std::string_view kOutside[] = {"zero", "nan"};

  /// Index of the node's text among the words; 0 after a failure.
  size_t word(const Node& node, const std::string& pointer, std::span<const std::string_view> words) {
    const std::string found = text(node, pointer);
    std::string known;
    for (size_t i = 0; i < words.size(); ++i) {
      if (found == words[i]) return i;
      known.append(known.empty() ? "" : ", ").append(words[i]);
    }
    wrong(pointer, fmt::format("`{}` is not one of {}", shortened(found), known));
    return 0;
  }

  /// One expression or a list of them.
  std::vector<std::string> expressions(const Node& node, const std::string& pointer) {
    if (node.type != NodeType::kArray) return {expression(node, pointer)};
    std::vector<std::string> values;
    for (size_t i = 0; i < node.items.size() && !failure; ++i)
      values.push_back(expression(node.items[i], pointer_step(pointer, i)));
    return values;
  }

  void wrong(const std::string& pointer, std::string message) {
    if (!failure) failure = plan_failure(path_, pointer, std::move(message));
  }
  void wrong_type(const std::string& pointer, const char* expected, const Node& node) {
    wrong(pointer, fmt::format("{} is expected, found {}", expected, word_of(node.type)));
  }

  bool known_keys(const Node& object, const std::string& pointer, const std::vector<std::string>& keys) {
    for (const auto& [key, value] : object.members) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      wrong(pointer_step(pointer, key), fmt::format("unknown key `{}`{}", shortened(key), did_you_mean(key, keys)));
      return false;
    }
    return true;
  }

  std::string text(const Node& node, const std::string& pointer) {
    if (node.type != NodeType::kString) wrong_type(pointer, "a string", node);
    return node.text;
  }

  std::string task(const Node& node, const std::string& pointer) {
    std::string id = text(node, pointer);
    if (!failure && !is_identifier(id))
      wrong(pointer, fmt::format("`{}` is not a task id (letters, digits and _)", shortened(id)));
    return id;
  }

  /// An integer or a string that holds an expression.
  std::string expression(const Node& node, const std::string& pointer) {
    if (node.type != NodeType::kInteger && node.type != NodeType::kString)
      wrong_type(pointer, "an integer or a string with an expression", node);
    return node.text;
  }

  /// One expression or a list of up to three.
  void triple(const Node& node, const std::string& pointer, std::array<std::string, 3>& values) {
    if (node.type != NodeType::kArray) {
      values[0] = expression(node, pointer);
      return;
    }
    if (node.items.empty() || node.items.size() > 3) {
      wrong(pointer, fmt::format("a list of one to three expressions is expected, found {}", node.items.size()));
      return;
    }
    for (size_t i = 0; i < node.items.size() && !failure; ++i)
      values[i] = expression(node.items[i], pointer_step(pointer, i));
  }

  /// Text put behind `#define NAME `: one line.
  std::string define_value(const Node& node, const std::string& pointer) {
    if (node.type != NodeType::kInteger && node.type != NodeType::kFloat && node.type != NodeType::kString)
      wrong_type(pointer, "a number or a string", node);
    for (const char c : node.text) {
      if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) continue;
      wrong(pointer, "a define must be one line without control characters");
      break;
    }
    if (!node.text.empty() && node.text.back() == '\\') wrong(pointer, "a define must not end with a backslash");
    return node.text;
  }

  bool identifier(const std::string& name, const std::string& pointer, const char* what) {
    if (is_identifier(name)) return true;
    wrong(pointer, fmt::format("the {} name `{}` is not an identifier", what, shortened(name)));
    return false;
  }

  std::vector<std::pair<std::string, std::string>> defines(const Node& node, const std::string& pointer) {
    std::vector<std::pair<std::string, std::string>> values;
    if (node.type != NodeType::kObject) wrong_type(pointer, "an object", node);
    for (const auto& [name, value] : node.members) {
      const std::string at = pointer_step(pointer, name);
      if (!identifier(name, at, "define")) break;
      values.emplace_back(name, define_value(value, at));
      if (failure) break;
    }
    return values;
  }

  void tunables(const Node& node, const std::string& pointer, Plan& plan) {
    if (node.type != NodeType::kObject) wrong_type(pointer, "an object", node);
    for (const auto& [name, list] : node.members) {
      const std::string at = pointer_step(pointer, name);
      if (!identifier(name, at, "tunable")) return;
      if (list.type != NodeType::kArray) return wrong_type(at, "a list", list);
      if (list.items.empty()) return wrong(at, "the list of values is empty");
      std::vector<std::string> values;
      for (size_t i = 0; i < list.items.size() && !failure; ++i)
        values.push_back(define_value(list.items[i], pointer_step(at, i)));
      if (failure) return;
      plan.tunables.emplace(name, std::move(values));
    }
  }

  std::vector<std::string> options(const Node& node, const std::string& pointer) {
    std::vector<std::string> values;
    if (node.type != NodeType::kArray) wrong_type(pointer, "a list of strings", node);
    for (size_t i = 0; i < node.items.size() && !failure; ++i)
      values.push_back(text(node.items[i], pointer_step(pointer, i)));
    return values;
  }

  std::vector<std::pair<std::string, std::string>> scratch(const Node& node, const std::string& pointer) {
    std::vector<std::pair<std::string, std::string>> values;
    if (node.type != NodeType::kObject) wrong_type(pointer, "an object", node);
    for (const auto& [name, value] : node.members) {
      const std::string at = pointer_step(pointer, name);
      if (!identifier(name, at, "scratch")) break;
      values.emplace_back(name, expression(value, at));
      if (failure) break;
    }
    return values;
  }

  std::vector<PlanLaunch> launches(const Node& node, const std::string& pointer) {
    std::vector<PlanLaunch> list;
    if (node.type != NodeType::kArray)
      wrong_type(pointer, "a list", node);
    else if (node.items.empty())
      wrong(pointer, "the list of launches is empty");
    for (size_t i = 0; i < node.items.size() && !failure; ++i)
      list.push_back(launch(node.items[i], pointer_step(pointer, i)));
    return list;
  }

  PlanLaunch launch(const Node& node, const std::string& pointer) {
    PlanLaunch result;
    result.pointer = pointer;
    if (node.type != NodeType::kObject) {
      wrong_type(pointer, "an object", node);
      return result;
    }
    if (++entries_ > kMaxEntries) wrong(pointer, fmt::format("the plan has more than {} launches", kMaxEntries));
    const Node* group = member(node, "launches");
    const Node* library = member(node, "library");
    static const std::vector<std::string> kGroupKeys = {"for", "repeat", "launches"};
    static const std::vector<std::string> kLaunchKeys = {"for",     "kernel",       "grid", "block",
                                                         "cluster", "shared_bytes", "args"};
    if (group != nullptr) {
      if (member(node, "kernel") != nullptr)
        wrong(pointer + "/kernel", "a group has \"launches\" and no \"kernel\" of its own");
      else
        known_keys(node, pointer, kGroupKeys);
    } else if (library != nullptr) {
      return library_call(node, pointer);
    } else {
      if (member(node, "repeat") != nullptr)
        wrong(pointer + "/repeat", "only a group repeats: put the launch into {\"repeat\": ..., \"launches\": [...]}");
      std::vector<std::string> keys = kLaunchKeys;
      keys.insert(keys.end(), {"launches", "library"});
      if (!failure && known_keys(node, pointer, keys)) {
        for (const char* required : {"kernel", "block", "args"})
          if (member(node, required) == nullptr) wrong(pointer, fmt::format("the launch has no \"{}\"", required));
      }
    }
    if (failure) return result;
    for (const auto& [key, value] : node.members) {
      const std::string at = pointer_step(pointer, key);
      if (key == "for")
        result.each = each(value, at);
      else if (key == "kernel")
        result.kernel = kernel(value, at);
      else if (key == "grid")
        triple(value, at, result.grid);
      else if (key == "block")
        triple(value, at, result.block);
      else if (key == "cluster")
        triple(value, at, result.cluster);
      else if (key == "shared_bytes")
        result.shared_bytes = expression(value, at);
      else if (key == "args")
        result.args = arguments(value, at);
      else if (key == "repeat")
        result.repeat = expression(value, at);
      else if (key == "launches")
        result.launches = launches(value, at);
      if (failure) return result;
    }
    return result;
  }

  PlanLaunch library_call(const Node& node, const std::string& pointer) {
    PlanLaunch result;
    result.pointer = pointer;
    result.library = text(*member(node, "library"), pointer + "/library");
    if (failure) return result;
    if (result.library != "gemm") {
      wrong(pointer + "/library", fmt::format("unknown library call `{}`, known: gemm", shortened(result.library)));
      return result;
    }
    static const std::vector<std::string> kKeys = {"for",         "library",  "m",        "n",        "k",
                                                   "a",           "b",        "c",        "d",        "transpose_a",
                                                   "transpose_b", "alpha",    "beta",     "inputs",   "output",
                                                   "batch",       "stride_a", "stride_b", "stride_c", "stride_d"};
    if (!known_keys(node, pointer, kKeys)) return result;
    for (const char* required : {"m", "n", "k", "a", "b", "d", "inputs", "output"})
      if (member(node, required) == nullptr) wrong(pointer, fmt::format("the gemm has no \"{}\"", required));
    PlanGemm& gemm = result.gemm;
    const std::pair<std::string_view, std::string*> expressions[] = {{"m", &gemm.m},
                                                                     {"n", &gemm.n},
                                                                     {"k", &gemm.k},
                                                                     {"batch", &gemm.batch},
                                                                     {"stride_a", &gemm.stride_a},
                                                                     {"stride_b", &gemm.stride_b},
                                                                     {"stride_c", &gemm.stride_c},
                                                                     {"stride_d", &gemm.stride_d}};
    const std::pair<std::string_view, std::string*> pointers[] = {
        {"a", &gemm.a}, {"b", &gemm.b}, {"c", &gemm.c}, {"d", &gemm.d}};
    for (const auto& [key, value] : node.members) {
      if (failure) return result;
      const std::string at = pointer_step(pointer, key);
      for (const auto& [name, place] : expressions)
        if (key == name) *place = expression(value, at);
      for (const auto& [name, place] : pointers)
        if (key == name) *place = text(value, at);
      if (key == "for") result.each = each(value, at);
      if (key == "transpose_a") gemm.transpose_a = truth(value, at);
      if (key == "transpose_b") gemm.transpose_b = truth(value, at);
      if (key == "alpha") gemm.alpha = factor(value, at);
      if (key == "beta") gemm.beta = factor(value, at);
      if (key == "inputs") gemm.inputs = matrix_type(value, at);
      if (key == "output") gemm.output = matrix_type(value, at);
    }
    if (failure) return result;
    if (gemm.output != DType::kF32 && gemm.output != gemm.inputs)
      wrong(pointer + "/output", "the result is f32 or has the type of the inputs");
    if (gemm.beta != 0 && gemm.c.empty())
      wrong(pointer + "/beta", "beta is not 0 and there is no \"c\" that it could multiply");
    if (gemm.beta == 0 && !gemm.c.empty()) wrong(pointer + "/c", "c is not used where beta is 0");
    if (gemm.c.empty() && !gemm.stride_c.empty()) wrong(pointer + "/stride_c", "there is no \"c\"");
    return result;
  }

  /// true, false or an expression.
  std::string truth(const Node& node, const std::string& pointer) {
    if (node.type == NodeType::kBool) return node.text == "true" ? "1" : "0";
    return expression(node, pointer);
  }

  /// A number that fp32 can hold.
  double factor(const Node& node, const std::string& pointer) {
    if (node.type != NodeType::kInteger && node.type != NodeType::kFloat) wrong_type(pointer, "a number", node);
    if (failure) return 0;
    const double value = std::strtod(node.text.c_str(), nullptr);
    if (std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max()))
      wrong(pointer, fmt::format("{} is beyond fp32", shortened(node.text, 40)));
    return value;
  }

  DType matrix_type(const Node& node, const std::string& pointer) {
    const std::string word = text(node, pointer);
    if (word == "bf16") return DType::kBf16;
    if (word == "f16") return DType::kF16;
    if (!failure && word != "f32") wrong(pointer, fmt::format("`{}` is not one of f32, bf16, f16", shortened(word)));
    return DType::kF32;
  }

  static const Node* member(const Node& node, std::string_view key) {
    for (const auto& [name, value] : node.members)
      if (name == key) return &value;
    return nullptr;
  }

  LaunchFor each(const Node& node, const std::string& pointer) {
    const std::string word = text(node, pointer);
    if (failure || word == "step") return LaunchFor::kStep;
    if (word == "tensor") return LaunchFor::kTensor;
    if (word == "shape") return LaunchFor::kShape;
    static const std::vector<std::string> kWords = {"step", "tensor", "shape"};
    wrong(pointer,
          fmt::format("`{}` is not one of step, tensor, shape{}", shortened(word), did_you_mean(word, kWords)));
    return LaunchFor::kStep;
  }

  std::string kernel(const Node& node, const std::string& pointer) {
    std::string name = text(node, pointer);
    if (failure) return name;
    if (name.find_first_not_of(" \t") == std::string::npos) wrong(pointer, "the kernel's name is empty");
    for (const char c : name)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
        wrong(pointer, "the kernel's name has a control character");
    return name;
  }

  std::vector<std::string> arguments(const Node& node, const std::string& pointer) {
    std::vector<std::string> values;
    if (node.type != NodeType::kArray) wrong_type(pointer, "a list", node);
    if (node.items.size() > kMaxArguments) wrong(pointer, fmt::format("more than {} arguments", kMaxArguments));
    for (size_t i = 0; i < node.items.size() && !failure; ++i) {
      const Node& item = node.items[i];
      const std::string at = pointer_step(pointer, i);
      const Node* map = item.type == NodeType::kObject ? member(item, "tensor_map") : nullptr;
      if (map != nullptr) {
        static const std::vector<std::string> kKeys = {"tensor_map"};
        if (known_keys(item, at, kKeys)) tensor_map(*map, at + "/tensor_map");
        values.push_back("tensor_map" + json_text(*map));
        continue;
      }
      if (item.type == NodeType::kNull || item.type == NodeType::kArray || item.type == NodeType::kObject)
        wrong_type(at, "a string, a number, a boolean or a {\"tensor_map\": ...}", item);
      values.push_back(item.text);
    }
    return values;
  }

  std::string path_;
  size_t entries_ = 0;
};

/// The part of nlohmann's message that says what was found and expected.
std::string syntax_sentence(const std::string& what) {
  const size_t column = what.find(", column ");
  const size_t colon = column == std::string::npos ? std::string::npos : what.find(": ", column);
  std::string sentence = colon == std::string::npos ? what : what.substr(colon + 2);
  const size_t dash = sentence.find(" - ");
  if (sentence.rfind("syntax error", 0) == 0 && dash != std::string::npos) sentence = sentence.substr(dash + 3);
  return shortened(sentence, 200);
}

/// Byte where the offending token begins. The library counts the bytes read so far: up to the token's end when it was
/// read whole, up to the first wrong character otherwise. The text it keeps begins at the token for strings and numbers
/// only.
size_t syntax_place(std::string_view json, size_t bytes_read, size_t token_bytes, const std::string& sentence) {
  const auto begins = [&](const char* words) { return sentence.rfind(words, 0) == 0; };
  if (bytes_read > json.size() || begins("unexpected end of input")) return json.size();
  size_t length = 1;
  if (begins("unexpected string literal") || begins("unexpected number literal")) length = token_bytes;
  if (begins("unexpected true literal") || begins("unexpected null literal")) length = 4;
  if (begins("unexpected false literal")) length = 5;
  return bytes_read - std::min(length, bytes_read);
}

}  // namespace

bool is_identifier(std::string_view text) {
  if (text.empty() || text.size() > 64 || (text[0] >= '0' && text[0] <= '9')) return false;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(c >= '0' && c <= '9')) return false;
  }
  return true;
}

Judged<ParsedPlan> parse_plan_json(const std::string& path, std::string_view file, size_t begin, size_t end) {
  const std::string_view json = file.substr(begin, end - begin);
  const size_t first = json.find_first_not_of(" \t\r\n");
  const size_t first_byte = first == std::string_view::npos ? begin : begin + first;
  const size_t first_line = line_and_column(file, first_byte).first;
  TreeBuilder tree;
  try {
    nlohmann::json::sax_parse(json.begin(), json.end(), &tree);
  } catch (const std::exception& error) {
    return plan_failure(fmt::format("{}:{}", path, first_line), "",
                        fmt::format("the plan is not valid JSON: {}", syntax_sentence(error.what())));
  }
  if (tree.has_problem)
    return plan_failure(tree.problem_pointer.empty() ? fmt::format("{}:{}", path, first_line) : path,
                        tree.problem_pointer, tree.problem);
  if (tree.has_syntax_error) {
    const std::string sentence = syntax_sentence(tree.syntax_message);
    const size_t at = syntax_place(json, tree.syntax_position, tree.syntax_token.size(), sentence);
    const auto [line, column] = line_and_column(file, begin + at);
    return plan_failure(fmt::format("{}:{}:{}", path, line, column), "",
                        fmt::format("the plan is not valid JSON: {}", sentence));
  }
  PlanReader reader(path);
  ParsedPlan parsed = reader.read(tree.root);
  if (reader.failure) {
    if (reader.failure->place == path) reader.failure->place = fmt::format("{}:{}", path, first_line);
    return *reader.failure;
  }
  parsed.first_line = static_cast<int32_t>(first_line);
  return parsed;
}

Result<PlanTensorMap> parse_tensor_map_json(std::string_view json) {
  const auto invalid = [](const std::string& place, const std::string& message) {
    return Error{ErrorCode::kInvalidInput,
                 fmt::format("the tensor map is wrong{}: {}", place.empty() ? "" : " at " + place, message), "", "",
                 ""};
  };
  TreeBuilder tree;
  try {
    nlohmann::json::sax_parse(json.begin(), json.end(), &tree);
  } catch (const std::exception& error) {
    return invalid("", "no valid JSON: " + syntax_sentence(error.what()));
  }
  if (tree.has_problem) return invalid(tree.problem_pointer, tree.problem);
  if (tree.has_syntax_error) return invalid("", "no valid JSON: " + syntax_sentence(tree.syntax_message));
  PlanReader reader("");
  PlanTensorMap map = reader.tensor_map(tree.root, "");
  // The reader's places are ": <pointer>", its file being none.
  if (reader.failure)
    return invalid(reader.failure->place.substr(std::min<size_t>(2, reader.failure->place.size())),
                   reader.failure->message);
  return map;
}

}  // namespace stepbench
