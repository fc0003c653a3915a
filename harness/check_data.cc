// Data of one case: every number comes from the case's seed through derive_seed, so that the same salt gives the same
// case on every machine, in every order and with any number of threads.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "harness/checks.h"
#include "harness/inputs.h"
#include "harness/parallel.h"

namespace stepbench {

CaseData case_data(const CheckContext& context, const std::string& check, const CaseSpec& spec) {
  CaseData data;
  data.seed = derive_seed(context.salt, fmt::format("{}/{}", check, spec.name));
  data.streams.resize(spec.tensors.size());
  std::iota(data.streams.begin(), data.streams.end(), int64_t{0});
  return data;
}

bool has_draw(const TaskSpec& task, const std::string& draw) {
  return std::any_of(task.hyper.begin(), task.hyper.end(), [&](const HyperField& field) { return field.draw == draw; });
}

size_t source_buffer(const TaskSpec& task, size_t buffer) {
  const std::string_view value = shared_value(task.buffers[buffer].initial);
  if (value.empty()) return buffer;
  for (size_t b = 0; b < task.buffers.size(); ++b)
    if (task.buffers[b].initial == value) return b;
  for (size_t b = 0; b < task.buffers.size(); ++b)
    if (shared_value(task.buffers[b].initial) == value) return b;
  SB_ASSERT(false);  // the buffer itself is one
  return buffer;
}

void fill_states(const TaskSpec& task, std::span<const TensorShape> tensors, const std::string& family,
                 const CaseData& data, bool zero_moments, BufferBytes& bytes) {
  bytes.resize(task.buffers.size());
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != Role::kInOut) continue;
    bytes[b].resize(tensors.size());
    const size_t source = source_buffer(task, b);
    const bool is_parameter =
        buffer.initial == "parameter" || buffer.initial == "parameter_copy" || buffer.initial == "parameter_or_zero";
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (zero_moments && !is_parameter) {
        const int64_t elements = buffer_elements(buffer, tensors[i]);
        bytes[b][i].assign(static_cast<size_t>(elements) * dtype_bytes(buffer.dtype), std::byte{0});
      } else {
        bytes[b][i] = make_values(buffer, tensors[i], family,
                                  derive_seed(data.seed, "state", source, static_cast<uint64_t>(data.streams[i])));
      }
    }
  }
}

void fill_inputs(const TaskSpec& task, std::span<const TensorShape> tensors, const std::string& family,
                 const CaseData& data, int64_t draw, BufferBytes& bytes) {
  bytes.resize(task.buffers.size());
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != Role::kIn) continue;
    bytes[b].resize(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      bytes[b][i] = make_values(
          buffer, tensors[i], family,
          derive_seed(data.seed, "input", static_cast<uint64_t>(draw), b, static_cast<uint64_t>(data.streams[i])));
    }
  }
}

BufferViews views_of(const BufferBytes& bytes) {
  BufferViews views;
  for (const std::vector<Bytes>& buffer : bytes) views.emplace_back(buffer.begin(), buffer.end());
  return views;
}

BufferViews views_of(const BufferBytes& bytes, size_t first, size_t count) {
  BufferViews views(bytes.size());
  for (size_t b = 0; b < bytes.size(); ++b) {
    if (bytes[b].empty()) continue;
    const std::span<const Bytes> part = std::span(bytes[b]).subspan(first, count);
    views[b].assign(part.begin(), part.end());
  }
  return views;
}

void to_host(const TaskSpec& task, Role role, const BufferViews& bytes, HostState& host, int threads) {
  constexpr size_t kPartElements = 1 << 16;
  struct Part {
    DType dtype;
    std::span<const std::byte> bytes;
    std::span<double> out;
  };
  std::vector<Part> parts;
  host.values.resize(task.buffers.size());
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    if (task.buffers[b].role != role) continue;
    const DType dtype = task.buffers[b].dtype;
    host.values[b].resize(bytes[b].size());
    for (size_t i = 0; i < bytes[b].size(); ++i) {
      std::vector<double>& out = host.values[b][i];
      if (threads <= 1) {
        to_double(dtype, bytes[b][i], out);
        continue;
      }
      const size_t width = dtype_bytes(dtype), count = bytes[b][i].size() / width;
      out.resize(count);
      for (size_t first = 0; first < count; first += kPartElements) {
        const size_t length = std::min(kPartElements, count - first);
        parts.push_back(
            {dtype, bytes[b][i].subspan(first * width, length * width), std::span(out).subspan(first, length)});
      }
    }
  }
  run_parallel(threads, parts.size(), [&](size_t p) { to_double(parts[p].dtype, parts[p].bytes, parts[p].out); });
}

void to_host(const TaskSpec& task, Role role, const BufferBytes& bytes, HostState& host) {
  to_host(task, role, views_of(bytes), host);
}

int64_t total_elements(std::span<const TensorShape> tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), int64_t{0},
                         [](int64_t sum, const TensorShape& shape) { return sum + shape.n; });
}

}  // namespace stepbench
