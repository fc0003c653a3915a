// Tensor maps on a GPU: boxes of many views loaded and stored, against the VM bit by bit, which has neither swizzles
// nor NaN fill, so that these are compared with their definition; and what the hardware says of a wrong use.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "harness/stages.h"
#include "tests/cuda/scenario.h"

namespace stepbench::gpu_test {
namespace {

constexpr size_t kWords = 4096;  ///< of the buffer that boxes are taken from
constexpr uint32_t kTileBytes = 16384;

void say(const std::string& key, const std::string& value) { fmt::print("{} {}\n", key, value); }

/// For what must not fail: the child says why and ends.
[[noreturn]] void leave_with(const std::string& message) {
  say("error", message);
  std::fflush(stdout);
  std::_Exit(1);
}
template <class T>
T need(Result<T> result) {
  if (!result.ok()) leave_with(to_text(result.error()));
  return std::move(result).value();
}
void need(const Result<void>& result) {
  if (!result.ok()) leave_with(to_text(result.error()));
}

struct View {
  const char* name;
  std::vector<int64_t> dims, strides;  ///< strides in words, of dims 1 and up
  std::vector<int64_t> box, element_strides, at;
  TensorMapSwizzle swizzle = TensorMapSwizzle::kNone;
  bool nan_outside = false;
};

uint32_t box_words(const View& view) {
  int64_t words = 1;
  for (size_t i = 0; i < view.box.size(); ++i)
    words *= (view.box[i] + view.element_strides[i] - 1) / view.element_strides[i];
  return static_cast<uint32_t>(words);
}

/// One thread loads the box through the map `from`, copies the tile to `out`, fills it with 1000 + word and stores it
/// through the map `to`; not where it begins before the view, which stores must not.
std::string copy_ptx(const View& view, bool store) {
  const size_t rank = view.dims.size();
  std::string at;
  for (const int64_t x : view.at) at += fmt::format("{}{}", at.empty() ? "" : ", ", x);
  return fmt::format(R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128], .param .u64 out)
{{
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<16>;
.shared .align 1024 .b8 tile[{tile}];
.shared .align 8 .b8 bar[8];
ld.param.u64 %d1, [out];
mov.b64 %d2, from;
cvta.param.u64 %d3, %d2;
mov.b64 %d4, to;
cvta.param.u64 %d5, %d4;
mov.u32 %r1, tile;
mov.u32 %r2, bar;
mbarrier.init.shared::cta.b64 [%r2], 1;
fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 %d6, [%r2], {bytes};
cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%d3, {{{at}}}], [%r2];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;
@!%p1 bra WAIT;
mov.u32 %r3, 0;
NEXT:
add.u32 %r4, %r1, %r3;
ld.shared.u32 %r5, [%r4];
cvt.u64.u32 %d7, %r3;
add.u64 %d8, %d1, %d7;
st.global.u32 [%d8], %r5;
shr.u32 %r5, %r3, 2;
add.u32 %r5, %r5, 1000;
st.shared.u32 [%r4], %r5;
add.u32 %r3, %r3, 4;
setp.lt.u32 %p2, %r3, {bytes};
@%p2 bra NEXT;
{store}ret;
}}
)",
                     fmt::arg("tile", kTileBytes), fmt::arg("bytes", 4 * box_words(view)), fmt::arg("rank", rank),
                     fmt::arg("at", at),
                     fmt::arg("store", store ? fmt::format(R"(fence.proxy.async.shared::cta;
cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group [%d5, {{{}}}], [%r1];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
)",
                                                           rank, at)
                                             : ""));
}

TensorMapSpec spec_of(const View& view, uint64_t address) {
  TensorMapSpec spec;
  spec.address = address;
  spec.dtype = view.nan_outside ? DType::kF32 : DType::kI32;
  spec.rank = static_cast<int32_t>(view.dims.size());
  for (size_t i = 0; i < view.dims.size(); ++i) {
    spec.dims[i] = static_cast<uint64_t>(view.dims[i]);
    if (i > 0) spec.strides_bytes[i - 1] = static_cast<uint64_t>(4 * view.strides[i - 1]);
    spec.box[i] = static_cast<uint32_t>(view.box[i]);
    spec.element_strides[i] = static_cast<uint32_t>(view.element_strides[i]);
  }
  spec.swizzle = view.swizzle;
  spec.nan_outside = view.nan_outside;
  return spec;
}

struct Words {
  std::vector<uint32_t> loaded, stored;
};

/// Source words are i + 1, as integers or as floating-point numbers where the fill is one; what is stored to begins
/// as 7.
Words run(Device& device, const View& view) {
  CompiledModule compiled;
  const bool before = std::any_of(view.at.begin(), view.at.end(), [](int64_t x) { return x < 0; });
  compiled.ptx = copy_ptx(view, !before);
  Judged<ModuleId> module = need(device.load(compiled));
  if (!module.ok()) leave_with(module.failure->message + module.failure->detail);
  std::vector<uint32_t> source(kWords), target(kWords, 7);
  for (size_t i = 0; i < kWords; ++i)
    source[i] = view.nan_outside ? std::bit_cast<uint32_t>(static_cast<float>(i + 1)) : static_cast<uint32_t>(i + 1);
  const BufferId from = need(device.allocate({4 * kWords, 0, true, "from"}));
  const BufferId to = need(device.allocate({4 * kWords, 0, false, "to"}));
  Words words;
  words.loaded.resize(box_words(view));
  const BufferId out = need(device.allocate({4 * words.loaded.size(), 0, false, "out"}));
  need(device.write(from, 0, std::as_bytes(std::span(source))));
  need(device.write(to, 0, std::as_bytes(std::span(target))));
  struct alignas(64) Parameters {
    TensorMapBytes from, to;
    uint64_t out;
  };
  Parameters parameters{need(device.encode_tensor_map(spec_of(view, device.address(from)))),
                        need(device.encode_tensor_map(spec_of(view, device.address(to)))), device.address(out)};
  LaunchSpec spec;
  spec.module = *module.value;
  spec.entry = "k";
  spec.parameters = std::as_bytes(std::span(&parameters, 1)).first(264);
  const LaunchReport report = need(device.launch(spec));
  if (report.fault) leave_with(fmt::format("{}: {}", view.name, report.fault->message));
  need(device.read(out, 0, std::as_writable_bytes(std::span(words.loaded))));
  need(device.read(to, 0, std::as_writable_bytes(std::span(target))));
  words.stored = target;
  for (const BufferId buffer : {from, to, out}) device.release(buffer);
  device.unload(*module.value);
  return words;
}

const View kViews[] = {
    {"one dim", {100}, {}, {16}, {1}, {8}},
    {"one dim at the end", {101}, {}, {16}, {1}, {92}},
    {"one dim behind the end", {100}, {}, {16}, {1}, {100}},
    {"one dim before the start", {100}, {}, {16}, {1}, {-8}},
    {"longer than the view", {5}, {}, {16}, {1}, {-4}},
    {"256 elements", {1000}, {}, {256}, {1}, {900}},
    {"two dims", {12, 7}, {12}, {8, 3}, {1, 1}, {4, 2}},
    {"two dims at the corner", {13, 7}, {16}, {8, 3}, {1, 1}, {8, 6}},
    {"two dims before the corner", {12, 7}, {12}, {8, 3}, {1, 1}, {-4, -2}},
    {"rows outside", {12, 7}, {12}, {8, 3}, {1, 1}, {0, 7}},
    {"gaps between rows", {10, 6}, {16}, {4, 6}, {1, 1}, {8, 0}},
    {"tiles of sgd_tiles.cu", {76, 50}, {76}, {64, 16}, {1, 1}, {64, 48}},
    {"every second row", {12, 9}, {12}, {12, 8}, {1, 2}, {0, 2}},
    {"every third of seven rows", {12, 9}, {12}, {4, 7}, {1, 3}, {4, 1}},
    {"three dims", {8, 3, 4}, {8, 24}, {8, 2, 3}, {1, 1, 1}, {4, 2, 2}},
    {"four dims", {4, 3, 3, 2}, {4, 12, 36}, {4, 2, 2, 2}, {1, 1, 1, 1}, {0, 2, -1, 1}},
    {"five dims", {4, 2, 3, 2, 2}, {4, 8, 24, 48}, {4, 2, 2, 2, 2}, {1, 1, 1, 1, 1}, {0, 1, 1, 0, 1}},
};

size_t differences(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  size_t count = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) count += a[i] != b[i];
  return count;
}

/// Where the byte `at` of a tile aligned to 1024 bytes lies under a swizzle: address bits 4 to 6 (5, 4) are exclusive-
/// ored with bits 7 to 9 (8, 7) (CUDA programming guide, "Tensor memory access: shared memory bank swizzling").
uint32_t swizzled(TensorMapSwizzle swizzle, uint32_t at) {
  const uint32_t mask = swizzle == TensorMapSwizzle::k128B ? 7 : swizzle == TensorMapSwizzle::k64B ? 3 : 1;
  return at ^ (at >> 7 & mask) << 4;
}

void boxes() {
  const std::unique_ptr<Device> gpu = need(open_device("cuda"));
  const std::unique_ptr<Device> vm = need(open_device("vm"));
  int checked = 0, wrong = 0;
  for (const View& view : kViews) {
    const Words got = run(*gpu, view), expected = run(*vm, view);
    const size_t loaded = differences(got.loaded, expected.loaded), stored = differences(got.stored, expected.stored);
    ++checked;
    if (loaded + stored == 0) continue;
    ++wrong;
    say("differs", fmt::format("{}: {} words loaded, {} stored", view.name, loaded, stored));
  }
  say("boxes", std::to_string(checked));
  say("wrong", std::to_string(wrong));

  int swizzles = 0;
  for (const TensorMapSwizzle swizzle : {TensorMapSwizzle::k32B, TensorMapSwizzle::k64B, TensorMapSwizzle::k128B}) {
    const int64_t columns = swizzle == TensorMapSwizzle::k128B ? 32 : swizzle == TensorMapSwizzle::k64B ? 16 : 8;
    const View view{"swizzle", {64, 40}, {64}, {columns, 32}, {1, 1}, {8, 3}, swizzle};
    View plain = view;
    plain.swizzle = TensorMapSwizzle::kNone;
    const Words got = run(*gpu, view), expected = run(*vm, plain);
    bool right = got.loaded.size() == expected.loaded.size();
    for (uint32_t i = 0; right && i < expected.loaded.size(); ++i)
      right = got.loaded[swizzled(swizzle, 4 * i) / 4] == expected.loaded[i];
    // Word w of the tile went to where the load would have brought it from.
    for (uint32_t i = 0; right && i < expected.loaded.size(); ++i)
      right = got.stored[expected.loaded[i] - 1] == 1000 + swizzled(swizzle, 4 * i) / 4;
    swizzles += right ? 1 : 0;
  }
  say("swizzles", std::to_string(swizzles));

  const View nan{"nan", {5}, {}, {16}, {1}, {-4}, TensorMapSwizzle::kNone, true};
  const Words got = run(*gpu, nan);
  bool right = true;
  for (size_t i = 0; i < got.loaded.size(); ++i) {
    const auto value = std::bit_cast<float>(got.loaded[i]);
    const bool inside = i >= 4 && i < 9;
    right = right && (inside ? value == static_cast<float>(i - 3) : std::isnan(value));
  }
  say("nan", right ? fmt::format("{:08x}", got.loaded[0]) : "wrong");

  // What our own checks would not have let through.
  TensorMapSpec bad = spec_of(kViews[6], 0x7f0000000000);
  bad.box[1] = 300;
  const Result<TensorMapBytes> refused = gpu->encode_tensor_map(bad);
  say("refused", refused.ok()
                     ? "no"
                     : fmt::format("{} {}", refused.error().code == ErrorCode::kInvalidInput, refused.error().message));
  Words again = run(*gpu, kViews[0]);
  say("after", differences(again.loaded, run(*vm, kViews[0]).loaded) == 0 ? "right" : "wrong");
}

/// `null`: a map of zeros; `input`: a store through a map of a buffer that kernels may only read; `first_coordinate`: a
/// box that begins inside 16 bytes; `stored_before`: one that is stored from before the start on; `right`: none of
/// them.
void fault(const std::string& what) {
  const std::unique_ptr<Device> gpu = need(open_device("cuda"));
  const bool null = what == "null", input = what == "input";
  View view = kViews[0];
  if (what == "first_coordinate") view.at[0] = 6;
  if (what == "stored_before") view.at[0] = -8;
  CompiledModule compiled;
  compiled.ptx = copy_ptx(view, true);
  const Judged<ModuleId> module = need(gpu->load(compiled));
  if (!module.ok()) leave_with(module.failure->message);
  const BufferId from = need(gpu->allocate({4 * kWords, 0, input, "from"}));
  const std::vector<uint32_t> source(kWords, 5);
  need(gpu->write(from, 0, std::as_bytes(std::span(source))));
  const BufferId out = need(gpu->allocate({4 * box_words(view), 0, false, "out"}));
  struct alignas(64) Parameters {
    TensorMapBytes from, to;
    uint64_t out;
  };
  const TensorMapBytes map = need(gpu->encode_tensor_map(spec_of(view, gpu->address(from))));
  const Parameters parameters{null ? TensorMapBytes{} : map, map, gpu->address(out)};
  LaunchSpec spec;
  spec.module = *module.value;
  spec.entry = "k";
  spec.parameters = std::as_bytes(std::span(&parameters, 1)).first(264);
  gpu->set_budget(20'000'000);  // two seconds
  const LaunchReport report = need(gpu->launch(spec));
  say("verdict", report.fault ? std::string(to_text(verdict_of(report.fault->kind))) : "none");
  if (report.fault) say("message", report.fault->message);
}

}  // namespace

void use_tensor_maps(const std::string& what) {
  if (what == "boxes") return boxes();
  if (what == "null" || what == "input" || what == "first_coordinate" || what == "stored_before" || what == "right")
    return fault(what);
  leave_with("unknown scenario " + what);
}

}  // namespace stepbench::gpu_test
