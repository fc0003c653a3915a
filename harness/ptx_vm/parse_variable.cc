// Variables: their heads, sizes and initialisers (PTX ISA sections 5.1 to 5.4), at module scope, in parameter lists and
// in functions. Texture, surface and sampler variables, vector registers and mask operators in initialisers are
// refused.
#include <algorithm>
#include <bit>

#include "harness/ptx_vm/parser.h"

namespace stepbench::ptx {

namespace {

struct TypeWidth {
  std::string_view type;
  uint32_t bytes;
};
constexpr TypeWidth kTypes[] = {{"b8", 1},     {"b16", 2},   {"b32", 4},   {"b64", 8},  {"b128", 16}, {"u8", 1},
                                {"u16", 2},    {"u32", 4},   {"u64", 8},   {"s8", 1},   {"s16", 2},   {"s32", 4},
                                {"s64", 8},    {"f16", 2},   {"f16x2", 4}, {"f32", 4},  {"f64", 8},   {"bf16", 2},
                                {"bf16x2", 4}, {"tf32", 4},  {"f32x2", 8}, {"e4m3", 1}, {"e5m2", 1},  {"e4m3x2", 2},
                                {"e5m2x2", 2}, {"u16x2", 4}, {"s16x2", 4}, {"pred", 1}};

void store_little_endian(std::vector<uint8_t>* bytes, uint64_t offset, uint64_t value, uint32_t width) {
  if (bytes->size() < offset + width) bytes->resize(offset + width);
  for (uint32_t i = 0; i < width; ++i) (*bytes)[offset + i] = static_cast<uint8_t>(i < 8 ? value >> (8 * i) : 0);
}

}  // namespace

uint32_t type_bytes(std::string_view type) {
  for (const TypeWidth& row : kTypes)
    if (row.type == type) return row.bytes;
  return 0;
}

std::optional<Space> space_of(std::string_view word) {
  if (word == ".global") return Space::kGlobal;
  if (word == ".shared") return Space::kShared;
  if (word == ".const") return Space::kConst;
  if (word == ".local") return Space::kLocal;
  if (word == ".param") return Space::kParam;
  return std::nullopt;
}

// [.align N] [.attribute(..)] [.v2|.v4] .type [.ptr [.space] [.align N]], in any order that PTX writers use
bool Parser::variable_head(Variable* variable, std::string* type, uint32_t* vector) {
  uint64_t align = 0;
  bool is_pointer = false;
  while (token_.kind == TokenKind::kDotWord) {
    const std::string_view name = token_.text;
    if (name == ".align") {
      const int32_t line = token_.line;
      advance();
      uint64_t value = 0;
      if (!integer("an alignment", kMaxAlignBytes, &value)) return false;
      if (value == 0 || (value & (value - 1)) != 0) return refuse("an alignment is not a power of two", line);
      if (!is_pointer) align = value;  // behind .ptr it is the alignment of what the pointer points to
    } else if (name == ".attribute") {
      advance();
      if (!skip_balanced()) return false;
    } else if (name == ".v2" || name == ".v4" || name == ".v8") {
      *vector = static_cast<uint32_t>(name[2] - '0');
      advance();
    } else if (name == ".ptr") {
      is_pointer = true;
      advance();
      if (token_.kind == TokenKind::kDotWord && space_of(token_.text)) advance();
    } else if (type->empty() && type_bytes(name.substr(1)) > 0) {
      *type = last_type_ = name.substr(1);
      advance();
    } else {
      return unexpected(type->empty() ? "a type" : "a name");
    }
  }
  if (type->empty()) return unexpected("a type");
  if (*type == "pred" && variable->space != Space::kReg)
    return refuse("a predicate is only possible in .reg", token_.line);
  if (*vector > 1 && variable->space == Space::kReg) return refuse("vector registers are not supported", token_.line);
  variable->type = *type;
  variable->align_bytes = align > 0 ? static_cast<uint32_t>(align) : type_bytes(*type) * *vector;
  return true;
}

// name [dim]... [= initialiser]
bool Parser::variable_declarator(const Variable& head, uint32_t vector, bool may_initialize, Variable* variable) {
  *variable = head;
  variable->place = place_;
  variable->place.ptx_line = token_.line;
  const int32_t line = token_.line;
  if (!word("a name", &last_name_)) return false;
  variable->name = last_name_;
  const uint32_t element = type_bytes(head.type);
  std::vector<uint64_t> dims;
  bool is_open = false;
  while (accept('[')) {
    if (dims.size() >= kMaxDimensions) return refuse("an array has too many dimensions", token_.line);
    if (token_.is(']') && dims.empty()) {
      is_open = true;
      dims.push_back(0);
    } else {
      Constant dim;
      if (!constant(&dim)) return false;
      if (dim.is_float || static_cast<int64_t>(dim.bits) < 0) return refuse("an array's size is not a count", line);
      dims.push_back(dim.bits);
    }
    if (!expect(']', "']'")) return false;
  }
  if (vector > 1) dims.push_back(vector);
  const bool has_initializer = may_initialize && token_.is('=');
  if (has_initializer) {
    advance();
    if (!initializer(variable, element, dims, &is_open)) return false;
  }
  uint64_t bytes = element;
  if (has_initializer && is_open) {  // the initialiser gave the first dimension
    bytes = variable->initial.size();
  } else {
    for (const uint64_t dim : dims) {
      if (dim != 0 && bytes > kMaxVariableBytes / dim)
        return refuse("variable " + quoted(variable->name) + " is above the limit of 1 TiB", line);
      bytes *= dim;
    }
  }
  variable->bytes = bytes;
  if (variable->initial.size() > bytes) return refuse("an initialiser is longer than its variable", line);
  if (!variable->initial.empty()) {
    initialized_bytes_ += bytes;
    if (bytes > kMaxInitializedBytes || initialized_bytes_ > kMaxInitializedBytes)
      return refuse("initialised variables are above the limit of 16 MiB", line);
    variable->initial.resize(bytes);
  }
  return true;
}

// A value, or braces nested like the dimensions; rows that are left short are zero. Braces are a stack of positions,
// not recursion.
bool Parser::initializer(Variable* variable, uint32_t element_bytes, std::span<const uint64_t> dims, bool* is_open) {
  std::vector<uint8_t>& bytes = variable->initial;
  bytes.clear();
  if (!token_.is('{')) {
    if (!dims.empty()) return unexpected("'{'");
    return initializer_value(variable, element_bytes, 0, &bytes);
  }

  struct Level {
    uint64_t offset = 0, stride = 0;  // next element's byte offset, bytes of one element of this level
  };
  std::vector<Level> levels;
  const auto stride_of = [&](size_t level) {
    uint64_t stride = element_bytes;
    for (size_t i = level + 1; i < dims.size(); ++i) {
      if (dims[i] != 0 && stride > kMaxVariableBytes / dims[i]) return kMaxVariableBytes;
      stride *= dims[i];
    }
    return stride;
  };
  advance();
  levels.push_back({0, stride_of(0)});
  uint64_t farthest = 0;
  bool needs_value = true;
  while (!levels.empty()) {
    Level& level = levels.back();
    if (token_.is('}')) {
      farthest = std::max(farthest, level.offset);
      levels.pop_back();
      advance();
      needs_value = false;
      if (!levels.empty()) levels.back().offset += levels.back().stride;
      continue;
    }
    if (!needs_value) {
      if (!expect(',', "',' or '}'")) return false;
      needs_value = true;
      if (token_.is('}')) return unexpected("a value");
      continue;
    }
    if (level.offset > kMaxInitializedBytes) return refuse("an initialiser is above the limit of 16 MiB", token_.line);
    if (token_.is('{')) {
      if (levels.size() >= std::max<size_t>(dims.size(), 1)) return unexpected("a value");
      const uint64_t offset = level.offset;
      advance();
      const uint64_t stride = stride_of(levels.size());
      levels.push_back({offset, stride});
      continue;
    }
    if (levels.size() < dims.size()) return unexpected("'{'");
    if (!initializer_value(variable, element_bytes, level.offset, &bytes)) return false;
    level.offset += level.stride;
    needs_value = false;
  }
  if (*is_open) {
    const uint64_t row = std::max<uint64_t>(stride_of(0), 1);
    const uint64_t rows = (std::max<uint64_t>(farthest, bytes.size()) + row - 1) / row;
    if (row > kMaxInitializedBytes || rows > kMaxInitializedBytes / row)
      return refuse("an initialiser is above the limit of 16 MiB", token_.line);
    bytes.resize(rows * row);
  }
  return true;
}

// number | symbol [+ number] | generic(symbol) [+ number]
bool Parser::initializer_value(Variable* variable, uint32_t element_bytes, uint64_t offset,
                               std::vector<uint8_t>* bytes) {
  if (token_.kind == TokenKind::kInteger && ahead_.is('('))
    return refuse("the mask operator in an initialiser is not supported", token_.line);
  if (token_.kind != TokenKind::kWord) {
    Constant value;
    const int32_t line = token_.line;
    if (!constant(&value)) return false;
    const std::string& type = variable->type;
    if (value.is_float) {
      if (type == "f32" && value.is_double) {
        value.bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(value.bits)));
      } else if (type == "f64" && !value.is_double) {
        value.bits =
            std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(value.bits))));
      } else if (type != "f32" && type != "f64" && element_bytes != (value.is_double ? 8u : 4u)) {
        return refuse("a floating point value initialises a variable of type ." + type, line);
      }
    } else if (type == "f32" || type == "f64") {
      const auto number = static_cast<double>(static_cast<int64_t>(value.bits));
      value.bits =
          type == "f64" ? std::bit_cast<uint64_t>(number) : std::bit_cast<uint32_t>(static_cast<float>(number));
    }
    if (offset + element_bytes > kMaxInitializedBytes)
      return refuse("an initialiser is above the limit of 16 MiB", line);
    store_little_endian(bytes, offset, value.bits, element_bytes);
    return true;
  }
  const int32_t line = token_.line;
  const bool is_generic = token_.text == "generic" && ahead_.is('(');
  if (is_generic) {
    advance();
    advance();
  }
  std::string_view symbol;
  if (!word("a symbol", &symbol)) return false;
  InitializerAddress address;
  address.offset_bytes = offset;
  address.symbol = symbol;
  if (is_generic && !expect(')', "')'")) return false;
  if (!displacement(&address.addend)) return false;
  if (variable_index_.count(address.symbol) == 0 && function_index_.count(address.symbol) == 0)
    return refuse(quoted(address.symbol) + " is not declared", line);
  if (element_bytes != 8) return refuse("an address initialises a variable narrower than 64 bits", line);
  store_little_endian(bytes, offset, 0, 8);
  variable->addresses.push_back(std::move(address));
  return true;
}

bool Parser::add_module_variable(Variable variable) {
  if (function_index_.count(variable.name) > 0)
    return refuse(quoted(variable.name) + " is declared twice", variable.place.ptx_line);
  const auto [known, is_new] = variable_index_.try_emplace(variable.name, module_.variables.size());
  if (is_new) {
    module_.variables.push_back(std::move(variable));
    return true;
  }
  Variable& before = module_.variables[known->second];
  if (!before.is_extern && !variable.is_extern)
    return refuse(quoted(variable.name) + " is declared twice", variable.place.ptx_line);
  if (before.is_extern) before = std::move(variable);
  return true;
}

bool Parser::module_variables(Space space, const std::string& link) {
  advance();
  place_ = Place{};
  Variable head;
  head.space = space;
  head.is_extern = link == "extern";
  std::string type;
  uint32_t vector = 1;
  if (!variable_head(&head, &type, &vector)) return false;
  do {
    if (!count_declaration()) return false;
    Variable variable;
    const bool may_initialize = !head.is_extern && (space == Space::kGlobal || space == Space::kConst);
    if (!variable_declarator(head, vector, may_initialize, &variable)) return false;
    if (!add_module_variable(std::move(variable))) return false;
  } while (accept(','));
  return expect(';', "',' or ';'");
}

}  // namespace stepbench::ptx
