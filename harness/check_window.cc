// Lists of real size: data that are made on the device and made again on the host where they are looked at, and the
// judgement of a step in parts. What a list of 2^31 elements needs on the host is a few windows at a time.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/checks.h"
#include "harness/parallel.h"
#include "harness/properties.h"

namespace stepbench {
namespace {

constexpr int64_t kTailElements = 256;  // judged at both ends of every tensor, in every audit
constexpr int64_t kBatchElements = int64_t{1} << 24;
constexpr size_t kBatchWindows = static_cast<size_t>(kBatchElements / kWindowElements);
/// The same where tensors are judged whole: several of the largest ones at a time.
constexpr int64_t kWholeBatchElements = int64_t{1} << 26;

/// What one thread judges at a time: its values, in double some ten arrays of them, stay in the second-level cache.
/// Tiles begin at multiples of kTileUnit from the window's start, so that no block of a storage task is cut.
constexpr int64_t kTileElements = 1 << 13;
constexpr int64_t kTileUnit = 256;

TensorShape shape_of(std::span<const TensorShape> tensors, const Window& window) {
  const TensorShape& shape = tensors[static_cast<size_t>(window.tensor)];
  return window.first == 0 && window.count == shape.n ? shape : make_shape({window.count});
}

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

/// Inputs that only the host can make (the bases of soap_fixed_basis, a decomposition for each) stay for so many steps,
/// as they do in training; made for every timed step, they took nine tenths of an evaluation.
constexpr int64_t kHostDrawSteps = 16;
int64_t host_draw(int64_t draw) { return draw / kHostDrawSteps * kHostDrawSteps; }

/// One of the buffer's chunks. `source`: the buffer that the value's random numbers belong to.
const Bytes& host_chunk(const TaskSpec& task, size_t b, size_t source, int64_t draw, uint64_t kind,
                        const LargeData& data) {
  HostChunks& host = *data.host;
  std::promise<Bytes> promise;
  std::shared_future<Bytes> chunk;
  bool mine = false;
  {
    const std::lock_guard lock(host.mutex);
    std::shared_future<Bytes>& place = host.chunks[{static_cast<int64_t>(b), draw, static_cast<int64_t>(kind)}];
    mine = !place.valid();
    if (mine) place = promise.get_future().share();
    chunk = place;
  }
  if (mine)
    promise.set_value(
        make_values(task.buffers[b], make_shape({kWindowElements}), "gaussian",
                    derive_seed(data.seed, "large_host", static_cast<uint64_t>(draw) << 8 | source, kind)));
  return chunk.get();  // the map keeps it
}

/// Values that only the host can make: of a whole tensor, or a part of the chunk that the window lies in.
Bytes host_values(const TaskSpec& task, size_t b, const TensorShape& shape, const Window& window, const LargeData& data,
                  int64_t draw, bool in_parts) {
  const BufferSpec& buffer = task.buffers[b];
  const size_t source = source_buffer(task, b);
  const auto tensor = static_cast<uint64_t>(window.tensor);
  if (!in_parts)
    return make_values(buffer, shape, "gaussian",
                       derive_seed(data.seed, "large_host", static_cast<uint64_t>(draw) << 8 | source, tensor));
  const int64_t chunk = window.first / kWindowElements, begin = chunk * kWindowElements;
  SB_ASSERT(window.first + window.count <= std::min(begin + kWindowElements, shape.n));
  const uint64_t kind =
      derive_seed(data.seed, "large_chunk", tensor, static_cast<uint64_t>(chunk)) % HostChunks::kKinds;
  const Bytes& values = host_chunk(task, b, source, draw, kind, data);
  const Part part = part_of(buffer, make_shape({kWindowElements}), {0, window.first - begin, window.count});
  const auto width = static_cast<int64_t>(dtype_bytes(buffer.dtype));
  const auto from = values.begin() + part.first * width;
  return Bytes(from, from + part.count * width);
}

void merge(StepJudgement& sum, StepJudgement&& one) {
  sum.elements_checked += one.elements_checked;
  if (sum.worst_buffer.empty() || worse(one.worst_ratio, sum.worst_ratio)) {
    sum.worst_ratio = one.worst_ratio;
    sum.worst_buffer = one.worst_buffer;
  }
  if (!sum.failure) sum.failure = std::move(one.failure);
}

}  // namespace

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
  const bool in_parts = judged_in_parts(task);
  bytes.resize(task.buffers.size());
  for (size_t b = 0; b < task.buffers.size(); ++b)
    if (task.buffers[b].role == role) bytes[b].resize(windows.size());
  /// Part of a buffer that is generated by itself: long ones are of tensors that are judged whole.
  struct Piece {
    GenerateSpec spec;
    int64_t first = 0;
    std::span<std::byte> out;
  };
  std::vector<std::vector<Piece>> pieces(windows.size());
  run_parallel(threads, windows.size(), [&](size_t w) {
    const Window& window = windows[w];
    const TensorShape& shape = tensors[static_cast<size_t>(window.tensor)];
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      const BufferSpec& buffer = task.buffers[b];
      if (buffer.role != role) continue;
      const Part part = part_of(buffer, shape, window);
      if (!can_generate(task, b)) {
        bytes[b][w] = host_values(task, b, shape, window, data, host_draw(draw), in_parts);
        continue;
      }
      const GenerateSpec spec =
          spec_of(buffer, source_buffer(task, b), window.tensor, draw, data, buffer_elements(buffer, shape));
      if (part.count <= kWindowElements) {
        generate_values(spec, part.first, part.count, bytes[b][w]);
        continue;
      }
      const auto width = static_cast<size_t>(dtype_bytes(buffer.dtype));
      bytes[b][w].resize(static_cast<size_t>(part.count) * width);
      for (int64_t done = 0; done < part.count; done += kWindowElements) {
        const auto count = static_cast<size_t>(std::min(kWindowElements, part.count - done));
        pieces[w].push_back({spec, part.first + done,
                             std::span(bytes[b][w]).subspan(static_cast<size_t>(done) * width, count * width)});
      }
    }
  });
  std::vector<const Piece*> all;
  for (const std::vector<Piece>& some : pieces)
    for (const Piece& piece : some) all.push_back(&piece);
  run_parallel(threads, all.size(), [&](size_t i) { generate_values(all[i]->spec, all[i]->first, all[i]->out); });
}

Result<void> generate_buffers(Rig& rig, const TaskSpec& task, std::span<const TensorShape> tensors, Role role,
                              const LargeData& data, int64_t draw, int threads) {
  bool all_made = true;
  std::vector<GenerateRequest> requests;
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != role) continue;
    if (!can_generate(task, b)) {
      all_made = false;
      continue;
    }
    for (size_t t = 0; t < tensors.size(); ++t) {
      const int64_t tensor = static_cast<int64_t>(t);
      requests.push_back(
          {tensor_buffer(*rig.session, static_cast<int>(b), tensor),
           spec_of(buffer, source_buffer(task, b), tensor, draw, data, buffer_elements(buffer, tensors[t]))});
    }
  }
  if (!requests.empty())
    if (const Result<void> done = rig.device->generate_all(requests); !done.ok()) return done;
  if (all_made || host_draw(draw) != draw) return {};
  const std::vector<Window> windows = judged_in_parts(task) ? all_windows(tensors) : whole_tensors(tensors);
  BufferBytes bytes;
  for (size_t first = 0; first < windows.size(); first += kBatchWindows) {
    const std::span<const Window> part =
        std::span(windows).subspan(first, std::min(kBatchWindows, windows.size() - first));
    generate_windows(task, tensors, role, part, data, draw, threads, bytes);
    std::vector<WriteRequest> writes;
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      const BufferSpec& buffer = task.buffers[b];
      if (buffer.role != role || can_generate(task, b)) continue;
      for (size_t w = 0; w < part.size(); ++w) {
        const Part place = part_of(buffer, tensors[static_cast<size_t>(part[w].tensor)], part[w]);
        writes.push_back({tensor_buffer(*rig.session, static_cast<int>(b), part[w].tensor),
                          static_cast<uint64_t>(place.first) * dtype_bytes(buffer.dtype), bytes[b][w]});
      }
    }
    if (const Result<void> done = rig.device->write_all(writes); !done.ok()) return done;
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
  std::vector<ReadRequest> reads;
  bytes.resize(task.buffers.size());
  for (size_t b = 0; b < task.buffers.size(); ++b) {
    const BufferSpec& buffer = task.buffers[b];
    if (buffer.role != role) continue;
    bytes[b].resize(windows.size());
    for (size_t w = 0; w < windows.size(); ++w) {
      const Part part = part_of(buffer, tensors[static_cast<size_t>(windows[w].tensor)], windows[w]);
      const uint32_t width = dtype_bytes(buffer.dtype);
      bytes[b][w].resize(static_cast<size_t>(part.count) * width);
      reads.push_back({tensor_buffer(*rig.session, static_cast<int>(b), windows[w].tensor),
                       static_cast<uint64_t>(part.first) * width, bytes[b][w]});
    }
  }
  return rig.device->read_all(reads);
}

Result<std::vector<double>> list_totals(const TaskSpec& task, std::span<const TensorShape> tensors,
                                        const HyperValues& hyper, const LargeData& data, int64_t draw, int threads) {
  HostState inputs;
  Result<std::vector<double>> totals = oracle_totals(task, {}, hyper, inputs, 1);
  if (!totals.ok() || totals.value().empty()) return totals;
  const std::vector<Window> windows = all_windows(tensors);
  BufferBytes bytes;
  for (size_t first = 0; first < windows.size(); first += kBatchWindows) {
    const std::span<const Window> part =
        std::span(windows).subspan(first, std::min(kBatchWindows, windows.size() - first));
    generate_windows(task, tensors, Role::kIn, part, data, draw, threads, bytes);
    to_host(task, Role::kIn, bytes, inputs);
    const Result<std::vector<double>> sums = oracle_totals(task, window_shapes(part), hyper, inputs, threads);
    if (!sums.ok()) return sums.error();
    for (size_t i = 0; i < sums.value().size(); ++i) totals.value()[i] += sums.value()[i];
  }
  return totals;
}

namespace {

/// One run of windows of tasks with judged_in_parts(), a tile after the other: `first_window` is where the bytes of
/// windows[0] lie. The verdict is that on the run as a whole.
Result<StepJudgement> judge_tiles(const TaskSpec& task, std::span<const TensorShape> tensors,
                                  std::span<const Window> windows, size_t first_window, const HyperValues& hyper,
                                  std::span<const double> totals, const BufferBytes& before, const BufferBytes& after,
                                  JudgeSpace& space) {
  const Result<PropertyOracle> properties = property_oracle(task);
  if (!properties.ok()) return properties.error();
  SB_ASSERT(properties.value().measure == nullptr);  // those are of whole tensors
  StepFindings findings;
  std::vector<Window> pieces;
  std::vector<TensorShape> shapes;
  BufferViews old_views(task.buffers.size()), new_views(task.buffers.size());
  const auto add_views = [&](size_t w, const Window& piece) {
    const TensorShape& shape = tensors[static_cast<size_t>(piece.tensor)];
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      const BufferSpec& buffer = task.buffers[b];
      const Part whole = part_of(buffer, shape, windows[w]), part = part_of(buffer, shape, piece);
      const auto begin = static_cast<size_t>(part.first - whole.first) * dtype_bytes(buffer.dtype);
      const auto length = static_cast<size_t>(part.count) * dtype_bytes(buffer.dtype);
      old_views[b].push_back(std::span(before[b][first_window + w]).subspan(begin, length));
      if (buffer.role == Role::kInOut)
        new_views[b].push_back(std::span(after[b][first_window + w]).subspan(begin, length));
    }
  };
  int64_t done = 0;  // elements of windows[w]
  for (size_t w = 0; w < windows.size();) {
    const bool continues = done > 0;
    pieces.clear();
    shapes.clear();
    for (size_t b = 0; b < task.buffers.size(); ++b) {
      old_views[b].clear();
      new_views[b].clear();
    }
    for (int64_t room = kTileElements; w < windows.size();) {
      const Window& window = windows[w];
      int64_t count = window.count - done;
      if (count > room) count = room / kTileUnit * kTileUnit;
      if (count == 0 && window.count > 0) break;  // the tile is full
      pieces.push_back({window.tensor, window.first + done, count});
      shapes.push_back(shape_of(tensors, pieces.back()));
      add_views(w, pieces.back());
      room -= count;
      done += count;
      if (done < window.count) continue;
      ++w;
      done = 0;
    }
    const JudgePart part{.windows = pieces, .totals = totals, .continues = continues};
    const Result<void> compared = compare_step(task, shapes, hyper, old_views, new_views, 1, space, part, findings);
    if (!compared.ok()) return compared.error();
  }
  return conclude_step(task, findings, nullptr);
}

}  // namespace

Result<StepJudgement> judge_windows(const TaskSpec& task, std::span<const TensorShape> tensors,
                                    std::span<const Window> windows, const HyperValues& hyper,
                                    std::span<const double> totals, const BufferBytes& before, const BufferBytes& after,
                                    int threads) {
  JudgeSpaces spaces;
  return judge_windows(task, tensors, windows, hyper, totals, before, after, threads, spaces);
}

Result<StepJudgement> judge_windows(const TaskSpec& task, std::span<const TensorShape> tensors,
                                    std::span<const Window> windows, const HyperValues& hyper,
                                    std::span<const double> totals, const BufferBytes& before, const BufferBytes& after,
                                    int threads, JudgeSpaces& spaces) {
  // Runs of windows that are judged at once: some per thread where windows are small, a tensor each where they are
  // whole, the largest first.
  struct Run {
    size_t first = 0, count = 0;
    int64_t elements = 0;
  };
  std::vector<Run> runs;
  const bool in_parts = judged_in_parts(task), in_tiles = in_parts && task.properties.empty();
  if (in_parts) {
    const size_t parts = std::min(static_cast<size_t>(std::max(threads, 1)) * 4, std::max<size_t>(windows.size(), 1));
    for (size_t p = 0; p < parts; ++p) {
      const size_t begin = windows.size() * p / parts;
      runs.push_back({begin, windows.size() * (p + 1) / parts - begin, 0});
    }
  } else {
    for (size_t w = 0; w < windows.size(); ++w) {
      SB_ASSERT(windows[w].first == 0 && windows[w].count == tensors[static_cast<size_t>(windows[w].tensor)].n);
      runs.push_back({w, 1, windows[w].count});
    }
  }
  std::vector<size_t> order(runs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return runs[a].elements > runs[b].elements; });
  // Whoever judges a tensor holds it in double, seven to ten times.
  size_t workers = static_cast<size_t>(std::max(threads, 1));
  int64_t held = 0;
  for (size_t i = 0; i < std::min(workers, order.size()); ++i) {
    held += runs[order[i]].elements;
    if (i > 0 && held > kMostHeldElements) workers = i;
  }
  // A tensor gets the share of the threads that it has of the work that is left, at least one: all tensors are done at
  // about the same time.
  std::vector<int> shares(runs.size(), 1);
  int64_t left = 0;
  for (size_t i = order.size(); i-- > 0;) {
    left += runs[order[i]].elements;
    const auto share = left == 0 ? 0 : static_cast<double>(runs[order[i]].elements) / static_cast<double>(left);
    shares[i] = std::clamp(static_cast<int>(std::lround(share * threads)), 1, std::max(threads, 1));
  }

  std::vector<std::optional<Result<StepJudgement>>> results(runs.size());
  std::atomic<size_t> next{0};
  run_parallel(static_cast<int>(workers), workers, [&](size_t) {
    JudgeSpace tiles;
    std::vector<TensorShape> shapes;
    for (size_t i = next.fetch_add(1); i < order.size(); i = next.fetch_add(1)) {
      const Run& run = runs[order[i]];
      const std::span<const Window> mine = windows.subspan(run.first, run.count);
      if (in_tiles) {
        results[order[i]] = judge_tiles(task, tensors, mine, run.first, hyper, totals, before, after, tiles);
        continue;
      }
      shapes.clear();
      for (const Window& window : mine) shapes.push_back(shape_of(tensors, window));
      const JudgePart part{.windows = mine, .totals = totals};
      JudgeSpaces::Free taken = take_space(spaces, total_elements(shapes));
      results[order[i]] = judge_step(task, shapes, hyper, views_of(before, run.first, run.count),
                                     views_of(after, run.first, run.count), shares[i], *taken.space, part);
      return_space(spaces, std::move(taken));
    }
  });
  StepJudgement judgement;
  for (std::optional<Result<StepJudgement>>& result : results) {
    if (!result->ok()) return result->error();
    merge(judgement, std::move(result->value()));
  }
  return judgement;
}

Result<StepJudgement> judge_first_step(Rig& rig, const TaskSpec& task, std::span<const TensorShape> tensors,
                                       const HyperValues& hyper, const LargeData& data, int threads,
                                       JudgeSpaces& spaces) {
  StepJudgement judgement;
  const Result<std::vector<double>> totals = list_totals(task, tensors, hyper, data, 0, threads);
  if (!totals.ok()) return totals.error();
  const bool in_parts = judged_in_parts(task);
  const std::vector<Window> windows = in_parts ? all_windows(tensors) : whole_tensors(tensors);
  const int64_t most = in_parts ? kBatchElements : kWholeBatchElements;
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
  for (size_t first = 0; first < windows.size() && !judgement.failure;) {
    size_t count = 0;
    for (int64_t elements = 0; first + count < windows.size(); ++count) {
      elements += windows[first + count].count;
      if (count > 0 && elements > most) break;
    }
    reading.windows = std::span(windows).subspan(first, count);
    first += count;
    const Result<void> read = read_windows(rig, task, tensors, Role::kInOut, reading.windows, reading.after);
    const Result<void> finished = finish();
    if (!read.ok()) return read.error();
    if (!finished.ok()) return finished.error();
    std::swap(reading, judging);
    judged = std::async(std::launch::async, [&] {
      for (const Role role : {Role::kInOut, Role::kIn})
        generate_windows(task, tensors, role, judging.windows, data, 0, threads, judging.before);
      return judge_windows(task, tensors, judging.windows, hyper, totals.value(), judging.before, judging.after,
                           threads, spaces);
    });
  }
  if (const Result<void> finished = finish(); !finished.ok()) return finished.error();
  return judgement;
}

}  // namespace stepbench
