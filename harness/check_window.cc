// Lists of real size: data that are made on the device and made again on the host where they are looked at, and the
// judgement of a step in parts. What a list of 2^31 elements needs on the host is a few windows at a time.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/checks.h"

namespace stepbench {
namespace {

constexpr int64_t kTailElements = 256;  // judged at both ends of every tensor, in every audit
constexpr size_t kBatchElements = size_t{1} << 24;

/// A window's share of one buffer.
struct Part {
  int64_t first = 0, count = 0;  ///< elements of the buffer
};

Part part_of(const BufferSpec& buffer, const TensorShape& shape, const Window& window) {
  if (window.first == 0 && window.count == shape.n) return {0, buffer_elements(buffer, shape)};
  const int64_t first = window.first == 0 ? 0 : buffer_elements(buffer, make_shape({window.first}));
  return {first, buffer_elements(buffer, make_shape({window.first + window.count})) - first};
}

/// Tensors that are zero throughout are for small lists: a large one has every value.
bool is_parameter(const BufferSpec& buffer) {
  return buffer.initial == "parameter" || buffer.initial == "parameter_copy" || buffer.initial == "parameter_or_zero";
}
bool is_moment(const BufferSpec& buffer) { return buffer.initial == "moment" || buffer.initial == "moment_or_zero"; }

bool is_generable(const BufferSpec& buffer) {
  const bool floating = buffer.dtype == DType::kF32 || buffer.dtype == DType::kBf16 || buffer.dtype == DType::kF16;
  return floating && (is_parameter(buffer) || is_moment(buffer) || buffer.initial == "gradient" ||
                      buffer.initial == "second_moment");
}

/// Whether the device can make the buffer's values. Not where another buffer holds a share of the same value that only
/// the host can make: shares made apart are no value (-0 above a negative low half is NaN).
bool can_generate(const TaskSpec& task, size_t b) {
  const size_t source = source_buffer(task, b);
  for (size_t other = 0; other < task.buffers.size(); ++other)
    if (source_buffer(task, other) == source && !is_generable(task.buffers[other])) return false;
  return true;
}

/// Magnitudes as in a small language model: parameters of 0.05, gradients of 0.01 and what they leave in the moments.
/// `b` is the buffer itself or, for a share of a value, the one that the value's random numbers belong to.
GenerateSpec spec_of(const BufferSpec& buffer, size_t b, int64_t tensor, int64_t draw, const LargeData& data,
                     int64_t count) {
  GenerateSpec spec;
  spec.dtype = buffer.dtype;
  spec.seed = derive_seed(data.seed, buffer.role == Role::kIn ? "large_input" : "large_state",
                          static_cast<uint64_t>(draw), b, static_cast<uint64_t>(tensor));
  spec.count = count;
  spec.amplitude = is_parameter(buffer) ? 0.05f : is_moment(buffer) ? 0.003f : 0.01f;
  if (buffer.role == Role::kIn) {
    // No two steps have the same size of gradient.
    const auto share = static_cast<float>(derive_seed(data.seed, "large_size", static_cast<uint64_t>(draw)) >> 40);
    spec.amplitude *= 0.5f + 1.5f * (share * 0x1p-24f);
  }
  spec.squared = buffer.initial == "second_moment";
  return spec;
}

/// Values that only the host can make, in chunks of kWindowElements from the start of the tensor; a window lies in one
/// chunk or is the whole tensor.
Bytes host_values(const BufferSpec& buffer, size_t b, const TensorShape& shape, const Window& window,
                  const LargeData& data, int64_t draw, bool elementwise) {
  const auto seed_of = [&](int64_t chunk) {
    return derive_seed(data.seed, "large_host", static_cast<uint64_t>(draw) << 8 | b,
                       static_cast<uint64_t>(window.tensor), static_cast<uint64_t>(chunk));
  };
  if (!elementwise) return make_values(buffer, shape, "gaussian", seed_of(0));
  const int64_t begin = window.first / kWindowElements * kWindowElements;
  SB_ASSERT(window.first + window.count <= std::min(begin + kWindowElements, shape.n));
  const Window chunk{window.tensor, begin, std::min(kWindowElements, shape.n - begin)};
  const Bytes values = make_values(buffer, make_shape({chunk.count}), "gaussian", seed_of(begin / kWindowElements));
  const Part part = part_of(buffer, shape, window), whole = part_of(buffer, shape, chunk);
  const auto width = static_cast<int64_t>(dtype_bytes(buffer.dtype));
  const auto from = values.begin() + (part.first - whole.first) * width;
  return Bytes(from, from + part.count * width);
}

bool worse(double ratio, double than) { return std::isnan(ratio) ? !std::isnan(than) : ratio > than; }

void merge(StepJudgement& sum, StepJudgement&& one) {
  sum.elements_checked += one.elements_checked;
  if (sum.worst_buffer.empty() || worse(one.worst_ratio, sum.worst_ratio)) {
    sum.worst_ratio = one.worst_ratio;
    sum.worst_buffer = one.worst_buffer;
  }
  if (!sum.failure) sum.failure = std::move(one.failure);
}

}  // namespace

void run_parallel(int threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
  };
  std::vector<std::jthread> pool;
  for (size_t i = 1; i < std::min(static_cast<size_t>(std::max(threads, 1)), count); ++i) {
    try {
      pool.emplace_back(run);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: the ones that run do the work
    }
  }
  run();
}

std::vector<Window> all_windows(std::span<const TensorShape> tensors) {
  std::vector<Window> windows;
  for (size_t t = 0; t < tensors.size(); ++t)
    for (int64_t first = 0; first < tensors[t].n; first += kWindowElements)
      windows.push_back({static_cast<int64_t>(t), first, std::min(kWindowElements, tensors[t].n - first)});
  return windows;
}

std::vector<Window> audit_windows(std::span<const TensorShape> tensors, int64_t elements, uint64_t seed) {
  // Windows start at multiples of their length; marked ones are taken, in order of the list.
  std::vector<int64_t> begin;  // of each tensor in the numbering of all windows
  int64_t total = 0;
  for (const TensorShape& shape : tensors) {
    begin.push_back(total);
    total += (shape.n + kAuditWindow - 1) / kAuditWindow;
  }
  std::vector<int64_t> taken;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].n == 0) continue;
    const int64_t last = begin[t] + (tensors[t].n - 1) / kAuditWindow;
    taken.push_back(begin[t]);
    taken.push_back(last);
    // The end may be a short window: a kernel's last vector or block reaches further back.
    if (tensors[t].n % kAuditWindow < kTailElements && last > begin[t]) taken.push_back(last - 1);
  }
  const int64_t wanted = std::min((elements + kAuditWindow - 1) / kAuditWindow, total);
  for (uint64_t i = 0; i < static_cast<uint64_t>(wanted); ++i)
    taken.push_back(static_cast<int64_t>(derive_seed(seed, "audit", i) % static_cast<uint64_t>(total)));
  std::sort(taken.begin(), taken.end());
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  std::vector<Window> windows;
  for (const int64_t index : taken) {
    const auto t = static_cast<size_t>(std::upper_bound(begin.begin(), begin.end(), index) - begin.begin() - 1);
    // Empty tensors share their number with the next one, which upper_bound finds.
    const int64_t first = (index - begin[t]) * kAuditWindow;
    windows.push_back({static_cast<int64_t>(t), first, std::min(kAuditWindow, tensors[t].n - first)});
  }
  return windows;
}

std::vector<TensorShape> window_shapes(std::span<const Window> windows) {
  std::vector<TensorShape> shapes;
  shapes.reserve(windows.size());
  for (const Window& window : windows) shapes.push_back(make_shape({window.count}));
  return shapes;
}

void generate_windows(const TaskSpec& task, std::span<const TensorShape> tensors, Role role,
                      std::span<const Window> windows, const LargeData& data, int64_t draw, int threads,
                      BufferBytes& bytes) {
  const bool elementwise = is_elementwise(task);
  bytes.resize(task.buffers.size());
  for (size_t b = 0; b < task.buffers.size(); ++b)
    if (task.buffers[b].role == role) bytes[b].resize(windows.size());
  run_parallel(threads, windows.size(), [&](size_t w) {
    const Window& window = windows[w];
    const TensorShape& shape = tensors[static_cast<size_t>(window.tensor)];
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      const BufferSpec& buffer = task.buffers[b];
      if (buffer.role != role) continue;
      const Part part = part_of(buffer, shape, window);
      const size_t source = source_buffer(task, b);
      bytes[b][w] =
          can_generate(task, b)
              ? generated_values(spec_of(buffer, source, window.tensor, draw, data, buffer_elements(buffer, shape)),
                                 part.first, part.count)
              : host_values(buffer, source, shape, window, data, draw, elementwise);
    }
  });
}

Result<void> generate_buffers(Rig& rig, const TaskSpec& task, std::span<const TensorShape> tensors, Role role,
                              const LargeData& data, int64_t draw, int threads) {
  bool all_made = true;
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != role) continue;
    if (!can_generate(task, b)) {
      all_made = false;
      continue;
    }
    for (size_t t = 0; t < tensors.size(); ++t) {
      const int64_t tensor = static_cast<int64_t>(t);
      const Result<void> done = rig.device->generate(
          tensor_buffer(*rig.session, static_cast<int>(b), tensor),
          spec_of(buffer, source_buffer(task, b), tensor, draw, data, buffer_elements(buffer, tensors[t])));
      if (!done.ok()) return done;
    }
  }
  if (all_made) return {};
  const std::vector<Window> windows = is_elementwise(task) ? all_windows(tensors) : whole_tensors(tensors);
  BufferBytes bytes;
  const size_t batch = std::max<size_t>(1, kBatchElements / static_cast<size_t>(kWindowElements));
  for (size_t first = 0; first < windows.size(); first += batch) {
    const std::span<const Window> part = std::span(windows).subspan(first, std::min(batch, windows.size() - first));
    generate_windows(task, tensors, role, part, data, draw, threads, bytes);
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      const BufferSpec& buffer = task.buffers[b];
      if (buffer.role != role || can_generate(task, b)) continue;
      for (size_t w = 0; w < part.size(); ++w) {
        const Part place = part_of(buffer, tensors[static_cast<size_t>(part[w].tensor)], part[w]);
        const Result<void> done =
            rig.device->write(tensor_buffer(*rig.session, static_cast<int>(b), part[w].tensor),
                              static_cast<uint64_t>(place.first) * dtype_bytes(buffer.dtype), bytes[b][w]);
        if (!done.ok()) return done;
      }
    }
  }
  return {};
}

std::vector<Window> whole_tensors(std::span<const TensorShape> tensors) {
  std::vector<Window> windows;
  for (size_t t = 0; t < tensors.size(); ++t) windows.push_back({static_cast<int64_t>(t), 0, tensors[t].n});
  return windows;
}

Result<void> read_windows(Rig& rig, const TaskSpec& task, std::span<const TensorShape> tensors, Role role,
                          std::span<const Window> windows, BufferBytes& bytes) {
  bytes.resize(task.buffers.size());
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != role) continue;
    bytes[b].resize(windows.size());
    for (size_t w = 0; w < windows.size(); ++w) {
      const Part part = part_of(buffer, tensors[static_cast<size_t>(windows[w].tensor)], windows[w]);
      const uint32_t width = dtype_bytes(buffer.dtype);
      bytes[b][w].resize(static_cast<size_t>(part.count) * width);
      const Result<void> done = rig.device->read(tensor_buffer(*rig.session, static_cast<int>(b), windows[w].tensor),
                                                 static_cast<uint64_t>(part.first) * width, bytes[b][w]);
      if (!done.ok()) return done;
    }
  }
  return {};
}

Result<StepJudgement> judge_windows(const TaskSpec& task, std::span<const TensorShape> tensors,
                                    std::span<const Window> windows, const HyperValues& hyper,
                                    const BufferBytes& before, const BufferBytes& after, int threads) {
  JudgeSpace space;
  if (!is_elementwise(task)) {  // then the windows are the whole list
    SB_ASSERT(windows.size() == tensors.size());
    return judge_step(task, tensors, hyper, before, after, threads, space);
  }
  const size_t parts = std::min(static_cast<size_t>(std::max(threads, 1)) * 4, std::max<size_t>(windows.size(), 1));
  std::vector<std::optional<Result<StepJudgement>>> results(parts);
  run_parallel(threads, parts, [&](size_t p) {
    const size_t begin = windows.size() * p / parts, end = windows.size() * (p + 1) / parts;
    const std::span<const Window> mine = windows.subspan(begin, end - begin);
    BufferBytes mine_before(task.buffers.size()), mine_after(task.buffers.size());
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      const auto cut = [&](const std::vector<Bytes>& from) {
        return std::vector<Bytes>(from.begin() + static_cast<ptrdiff_t>(begin),
                                  from.begin() + static_cast<ptrdiff_t>(end));
      };
      mine_before[b] = cut(before[b]);
      if (task.buffers[b].role == Role::kInOut) mine_after[b] = cut(after[b]);
    }
    JudgeSpace own;
    results[p] = judge_step(task, window_shapes(mine), hyper, mine_before, mine_after, 1, own, mine);
  });
  StepJudgement judgement;
  for (std::optional<Result<StepJudgement>>& result : results) {
    if (!result->ok()) return result->error();
    merge(judgement, std::move(result->value()));
  }
  return judgement;
}

Result<StepJudgement> judge_first_step(Rig& rig, const TaskSpec& task, std::span<const TensorShape> tensors,
                                       const HyperValues& hyper, const LargeData& data, int threads) {
  StepJudgement judgement;
  const bool elementwise = is_elementwise(task);
  const std::vector<Window> windows = elementwise ? all_windows(tensors) : whole_tensors(tensors);
  const size_t batch = elementwise ? std::max<size_t>(1, kBatchElements / static_cast<size_t>(kWindowElements))
                                   : std::max<size_t>(1, windows.size());
  // One batch is judged while the next is read.
  struct Batch {
    std::span<const Window> windows;
    BufferBytes before, after;
  };
  Batch reading, judging;
  std::future<Result<StepJudgement>> judged;
  const auto finish = [&]() -> Result<void> {
    if (!judged.valid()) return {};
    Result<StepJudgement> result = judged.get();
    if (!result.ok()) return result.error();
    merge(judgement, std::move(result.value()));
    return {};
  };
  for (size_t first = 0; first < windows.size() && !judgement.failure; first += batch) {
    reading.windows = std::span(windows).subspan(first, std::min(batch, windows.size() - first));
    const Result<void> read = read_windows(rig, task, tensors, Role::kInOut, reading.windows, reading.after);
    const Result<void> finished = finish();
    if (!read.ok()) return read.error();
    if (!finished.ok()) return finished.error();
    std::swap(reading, judging);
    judged = std::async(std::launch::async, [&] {
      for (const Role role : {Role::kInOut, Role::kIn})
        generate_windows(task, tensors, role, judging.windows, data, 0, threads, judging.before);
      return judge_windows(task, tensors, judging.windows, hyper, judging.before, judging.after, threads);
    });
  }
  if (const Result<void> finished = finish(); !finished.ok()) return finished.error();
  return judgement;
}

}  // namespace stepbench
