// Bulk copies by tensor maps and by plain bytes, and mbarriers: what arrives where, what lies outside, and every fault.
// Longer than most files because the tables of boxes and faults are the test.
#include <algorithm>

#include "harness/ptx_vm/tensor_map.h"
#include "tests/vm/vm_fixture.h"

namespace stepbench {
namespace {

using vm_test::kernel_ptx;
using vm_test::Parameters;
using vm_test::Vm;

constexpr const char* kParameters = ".param .align 64 .b8 map[128],\n.param .u64 out,\n.param .u64 data";

/// A tile, a barrier for one arrival, and the addresses of all: %d1 out, %d2 data, %d3 map, %r1 tile, %r2 barrier.
const std::string kSetUp = R"(.shared .align 128 .b8 tile[16384];
.shared .align 8 .b8 bar[8];
ld.param.u64 %d1, [out];
ld.param.u64 %d2, [data];
mov.b64 %d4, map;
cvta.param.u64 %d3, %d4;
mov.u32 %r1, tile;
mov.u32 %r2, bar;
mbarrier.init.shared::cta.b64 [%r2], 1;
)";
const std::string kWait = R"(WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;
@!%p1 bra WAIT;
)";
std::string expect(uint32_t bytes) {
  return "mbarrier.arrive.expect_tx.shared::cta.b64 %d5, [%r2], " + std::to_string(bytes) + ";\n";
}
/// Words of the tile -> out.
std::string copy_out(uint32_t bytes) {
  return R"(mov.u32 %r3, 0;
OUT:
add.u32 %r4, %r1, %r3;
ld.shared.u32 %r5, [%r4];
cvt.u64.u32 %d6, %r3;
add.u64 %d7, %d1, %d6;
st.global.u32 [%d7], %r5;
add.u32 %r3, %r3, 4;
setp.lt.u32 %p2, %r3, )" +
         std::to_string(bytes) + ";\n@%p2 bra OUT;\n";
}
/// Word i of the tile = 1000 + i.
std::string fill_tile(uint32_t bytes) {
  return R"(mov.u32 %r3, 0;
FILL:
add.u32 %r4, %r1, %r3;
shr.u32 %r5, %r3, 2;
add.u32 %r5, %r5, 1000;
st.shared.u32 [%r4], %r5;
add.u32 %r3, %r3, 4;
setp.lt.u32 %p2, %r3, )" +
         std::to_string(bytes) + ";\n@%p2 bra FILL;\n";
}
std::string vector_of(const std::vector<int64_t>& at) {
  std::string text;
  for (const int64_t x : at) text += (text.empty() ? "" : ", ") + std::to_string(x);
  return "{" + text + "}";
}
std::string load(const std::vector<int64_t>& at) {
  return "cp.async.bulk.tensor." + std::to_string(at.size()) +
         "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%d3, " + vector_of(at) + "], [%r2];\n";
}
std::string store(const std::vector<int64_t>& at) {
  return "cp.async.bulk.tensor." + std::to_string(at.size()) + "d.global.shared::cta.tile.bulk_group [%d3, " +
         vector_of(at) + "], [%r1];\n";
}
const std::string kCommit = "cp.async.bulk.commit_group;\n";
const std::string kWaitStores = "cp.async.bulk.wait_group 0;\n";

struct View {
  std::vector<int64_t> dims, strides;  ///< strides in words, of dims 1 and up
  std::vector<int64_t> box, element_strides;
  std::vector<int64_t> at;
};

TensorMapSpec spec_of(const View& view, uint64_t address) {
  TensorMapSpec spec;
  spec.address = address;
  spec.dtype = DType::kI32;
  spec.rank = static_cast<int32_t>(view.dims.size());
  for (size_t i = 0; i < view.dims.size(); ++i) {
    spec.dims[i] = static_cast<uint64_t>(view.dims[i]);
    if (i > 0) spec.strides_bytes[i - 1] = static_cast<uint64_t>(4 * view.strides[i - 1]);
    spec.box[i] = static_cast<uint32_t>(view.box[i]);
    spec.element_strides[i] = static_cast<uint32_t>(view.element_strides[i]);
  }
  return spec;
}

/// For every element of the box in its order: the word of the buffer that it is, or -1 outside of the view.
std::vector<int64_t> words_of(const View& view) {
  std::vector<int64_t> words{0};
  std::vector<bool> inside{true};
  for (size_t i = 0; i < view.dims.size(); ++i) {
    std::vector<int64_t> next;
    std::vector<bool> next_inside;
    for (int64_t k = 0; k < view.box[i]; k += view.element_strides[i]) {
      const int64_t x = view.at[i] + k;
      for (size_t j = 0; j < words.size(); ++j) {
        next.push_back(words[j] + x * (i == 0 ? 1 : view.strides[i - 1]));
        next_inside.push_back(inside[j] && x >= 0 && x < view.dims[i]);
      }
    }
    words = next;
    inside = next_inside;
  }
  for (size_t j = 0; j < words.size(); ++j)
    if (!inside[j]) words[j] = -1;
  return words;
}

/// What a store writes: rows go on to the next multiple of 16 bytes (as seen on an H200).
std::vector<int64_t> stored_words_of(View view) {
  view.dims[0] = (view.dims[0] + 3) / 4 * 4;
  return words_of(view);
}

struct BoxRow {
  const char* name;
  View view;
};
const BoxRow kBoxes[] = {
    {"one dim", {{100}, {}, {16}, {1}, {8}}},
    {"one dim at the end", {{100}, {}, {16}, {1}, {92}}},
    {"one dim behind the end", {{100}, {}, {16}, {1}, {100}}},
    {"one dim before the start", {{100}, {}, {16}, {1}, {-8}}},
    {"an end inside 16 bytes", {{101}, {}, {16}, {1}, {92}}},
    {"longer than the view", {{5}, {}, {16}, {1}, {-4}}},
    {"far away", {{100}, {}, {16}, {1}, {2147483644}}},
    {"far before", {{100}, {}, {16}, {1}, {-2147483644}}},
    {"two dims", {{12, 7}, {12}, {8, 3}, {1, 1}, {4, 2}}},
    {"two dims at the corner", {{12, 7}, {12}, {8, 3}, {1, 1}, {8, 6}}},
    {"two dims before the corner", {{12, 7}, {12}, {8, 3}, {1, 1}, {-4, -2}}},
    {"rows outside", {{12, 7}, {12}, {8, 3}, {1, 1}, {0, 7}}},
    {"gaps between rows", {{10, 6}, {16}, {4, 6}, {1, 1}, {8, 0}}},
    {"every second row", {{12, 9}, {12}, {12, 8}, {1, 2}, {0, 2}}},
    {"every third of seven rows", {{12, 9}, {12}, {4, 7}, {1, 3}, {4, 1}}},
    {"overlapping rows", {{8, 5}, {4}, {8, 5}, {1, 1}, {0, 0}}},
    {"three dims", {{8, 3, 4}, {8, 24}, {8, 2, 3}, {1, 1, 1}, {4, 2, 2}}},
    {"five dims", {{4, 2, 3, 2, 2}, {4, 8, 24, 48}, {4, 2, 2, 2, 2}, {1, 1, 1, 1, 1}, {0, 1, 1, 0, 1}}},
};

TEST_CASE("boxes loaded by tensor maps: every element, zeros outside") {
  for (const BoxRow& row : kBoxes) {
    INFO(row.name);
    Vm vm;
    std::vector<uint32_t> values(1024);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint32_t>(i + 1);
    const BufferId data = vm.buffer(values, "data", true);
    const std::vector<int64_t> words = words_of(row.view);
    const auto bytes = static_cast<uint32_t>(4 * words.size());
    const BufferId out = vm.raw(bytes, "out");
    vm.load(kernel_ptx(kParameters, kSetUp + expect(bytes) + load(row.view.at) + kWait + copy_out(bytes)));
    Parameters parameters;
    const TensorMapSpec spec = spec_of(row.view, vm.address(data));
    parameters.add(vm.device().encode_tensor_map(spec).value()).add(vm.address(out)).add(vm.address(data));
    const Counters counters = vm.run("k", {1, 1, 1}, {1, 1, 1}, parameters);
    std::vector<uint32_t> expected;
    uint64_t inside = 0;
    for (const int64_t word : words) {
      expected.push_back(word < 0 ? 0 : static_cast<uint32_t>(word + 1));
      inside += word >= 0;
    }
    CHECK(vm.contents<uint32_t>(out, words.size()) == expected);
    CHECK(counters.global_load_bytes == 4 * inside);
  }
}

TEST_CASE("boxes stored by tensor maps: nothing outside is touched but the rest of 16 bytes, nothing before") {
  for (const BoxRow& row : kBoxes) {
    if (std::string(row.name) == "overlapping rows") continue;  // the order of its stores is nobody's business
    INFO(row.name);
    const bool before = std::any_of(row.view.at.begin(), row.view.at.end(), [](int64_t x) { return x < 0; });
    Vm vm;
    const BufferId data = vm.buffer(std::vector<uint32_t>(1024, 7), "data");
    const std::vector<int64_t> words = stored_words_of(row.view);
    const auto bytes = static_cast<uint32_t>(4 * words.size());
    vm.load(kernel_ptx(kParameters, kSetUp + fill_tile(bytes) + store(row.view.at) + kCommit + kWaitStores));
    Parameters parameters;
    const TensorMapSpec spec = spec_of(row.view, vm.address(data));
    parameters.add(vm.device().encode_tensor_map(spec).value()).add(uint64_t{0}).add(vm.address(data));
    if (before) {
      const LaunchReport report = vm.launch("k", {1, 1, 1}, {1, 1, 1}, parameters);
      REQUIRE(report.fault.has_value());
      CHECK(report.fault->kind == FaultKind::kTrap);
      CHECK_THAT(report.fault->message, Catch::Contains("must not begin before its tensor"));
      continue;
    }
    const Counters counters = vm.run("k", {1, 1, 1}, {1, 1, 1}, parameters);
    std::vector<uint32_t> expected(1024, 7);
    uint64_t inside = 0;
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] < 0) continue;
      expected[static_cast<size_t>(words[i])] = static_cast<uint32_t>(1000 + i);
      ++inside;
    }
    CHECK(vm.contents<uint32_t>(data, 1024) == expected);
    CHECK(counters.global_store_bytes == 4 * inside);
  }
}

TEST_CASE("bulk copies: counters of bytes and sectors") {
  // Two rows of 16 words, 64 bytes apart from 128 on: 128 bytes in four sectors, one wavefront.
  Vm vm;
  const BufferId data = vm.buffer(std::vector<uint32_t>(256, 3), "data");
  const View view{{16, 16}, {16}, {16, 2}, {1, 1}, {0, 2}};
  vm.load(
      kernel_ptx(kParameters, kSetUp + expect(128) + load(view.at) + kWait + store({0, 4}) + kCommit + kWaitStores));
  Parameters parameters;
  parameters.add(vm.device().encode_tensor_map(spec_of(view, vm.address(data))).value())
      .add(uint64_t{0})
      .add(uint64_t{0});
  const Counters counters = vm.run("k", {1, 1, 1}, {1, 1, 1}, parameters);
  CHECK(counters.global_load_bytes == 128);
  CHECK(counters.global_load_sectors == 4);
  CHECK(counters.global_store_bytes == 128);
  CHECK(counters.global_store_sectors == 4);
  CHECK(counters.shared_wavefronts == 2);
}

struct FaultRow {
  const char* name;
  std::string body;  ///< behind the set-up
  FaultKind kind;
  const char* message;  ///< empty: no fault
};

TEST_CASE("bulk copies: faults, each beside the right way") {
  // The map: 64 words of `data` in boxes of 16.
  const std::string good = expect(64) + load({0}) + kWait;
  const FaultRow rows[] = {
      {"right", good + copy_out(64), FaultKind::kTrap, ""},
      {"right, with a hint",
       expect(64) +
           "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%d3, {0}], "
           "[%r2], %d9;\n" +
           kWait + copy_out(64),
       FaultKind::kTrap, ""},
      {"read before the wait", expect(64) + load({0}) + copy_out(64), FaultKind::kUninitializedRead,
       "load of 4 bytes at shared memory+0, where nothing has been written"},
      {"stored before the wait", expect(64) + load({0}) + store({0}), FaultKind::kRace,
       "a bulk copy uses shared memory that another one, not waited for, is writing"},
      {"loaded twice to one place", expect(128) + load({0}) + load({16}), FaultKind::kRace,
       "not waited for, is writing"},
      {"loaded over a store", good + store({0}) + kCommit + expect(64) + load({16}), FaultKind::kRace,
       "a bulk copy writes shared memory that a store, not waited for, is reading"},
      {"loaded over an open group", good + store({0}) + expect(64) + load({16}), FaultKind::kRace,
       "a bulk copy writes shared memory that a store, not committed, is reading"},
      {"loaded after a store",
       good + store({0}) + kCommit + "cp.async.bulk.wait_group.read 0;\n" + expect(64) + load({16}), FaultKind::kTrap,
       ""},
      {"stored from nothing", store({0}), FaultKind::kUninitializedRead, "of 64 bytes at shared memory+0"},
      {"tile off by 16", good + "add.u32 %r1, %r1, 16;\n" + expect(64) + load({0}), FaultKind::kMisaligned,
       "must be aligned to 128 bytes"},
      {"tile behind shared memory", "mov.u32 %r1, 17408;\n" + expect(64) + load({0}), FaultKind::kOutOfBounds,
       "shared memory"},
      {"tile at 0", "mov.u32 %r1, 0;\n" + expect(64) + load({0}), FaultKind::kOutOfBounds, "shared memory"},
      {"from element 2 on", load({2}), FaultKind::kMisaligned, "must be a multiple of 16 bytes"},
      {"from element -6 on", load({-6}), FaultKind::kMisaligned, "must be a multiple of 16 bytes"},
      {"from element -4 on", expect(64) + load({-4}) + kWait + copy_out(64), FaultKind::kTrap, ""},
      {"stored from element 2 on", good + store({2}), FaultKind::kMisaligned, "must be a multiple of 16 bytes"},
      {"stored from element -4 on", good + store({-4}), FaultKind::kTrap, "must not begin before its tensor"},
      {"barrier off by 4", "sub.u32 %r2, %r2, 4;\n" + load({0}), FaultKind::kMisaligned, "is not a multiple of 8"},
      {"no barrier", "mov.u32 %r2, tile;\n" + load({64}), FaultKind::kUninitializedRead, "atomic operation of 8 bytes"},
      {"something else for a barrier",
       "mov.u32 %r2, tile;\nst.shared.u64 [tile], 5;\nadd.u32 %r1, %r1, 128;\n" + load({0}), FaultKind::kTrap,
       "there is no mbarrier at this address"},
      {"barrier overwritten", expect(64) + load({0}) + "st.shared.u64 [bar], 5;\n" + kWait, FaultKind::kTrap,
       "there is no mbarrier"},
      {"barrier taken away", expect(64) + load({0}) + "mbarrier.inval.shared::cta.b64 [%r2];\n", FaultKind::kRace,
       "mbarrier.inval of a barrier that a bulk copy will signal"},
      {"barrier taken away in time", good + "mbarrier.inval.shared::cta.b64 [%r2];\n", FaultKind::kTrap, ""},
      {"barrier used after", good + "mbarrier.inval.shared::cta.b64 [%r2];\n" + expect(64),
       FaultKind::kUninitializedRead, "atomic operation"},
      {"two arrivals where one is expected", expect(64) + "mbarrier.arrive.shared::cta.b64 %d5, [%r2];\n",
       FaultKind::kTrap, "more arrivals at an mbarrier than its phase still expects"},
      {"a count of 0", "mbarrier.init.shared::cta.b64 [%r2], 0;\n", FaultKind::kTrap,
       "the count of an mbarrier must be"},
      {"too many bytes", expect(1 << 20), FaultKind::kTrap, "the mbarrier's tx-count leaves its range"},
      {"two dims of one", expect(64) + load({0, 0}), FaultKind::kTrap, "another number of dimensions"},
      {"map in global memory", "mov.b64 %d3, %d2;\n" + expect(64) + load({0}), FaultKind::kUnsupported,
       "the VM takes tensor maps from kernel parameters alone"},
      {"map off by 8", "add.u64 %d3, %d3, 8;\n" + expect(64) + load({0}), FaultKind::kMisaligned,
       "a tensor map must be aligned to 64 bytes"},
      {"map off by 64", "add.u64 %d3, %d3, 64;\n" + expect(64) + load({0}), FaultKind::kTrap,
       "there is no tensor map at this address"},
      {"fewer bytes expected than come", expect(32) + load({0}) + kWait, FaultKind::kBudget, "an endless loop?"},
      {"nobody loads", expect(64) + kWait, FaultKind::kBudget, "an endless loop?"},
      {"nobody arrives", load({0}) + kWait, FaultKind::kBudget, "an endless loop?"},
      // plain bytes
      {"bytes",
       expect(64) + "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], 64, [%r2];\n" +
           kWait + copy_out(64),
       FaultKind::kTrap, ""},
      {"40 bytes", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], 40, [%r2];\n",
       FaultKind::kMisaligned, "size and address of a bulk copy must be multiples of 16 bytes"},
      {"bytes from 8 on",
       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2 + 8], 64, [%r2];\n",
       FaultKind::kMisaligned, "multiples of 16 bytes"},
      {"bytes beyond the buffer",
       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2 + 208], 64, [%r2];\n",
       FaultKind::kOutOfBounds, "load of 64 bytes at data+208, reaching 16 bytes past its end (256 bytes)"},
      {"bytes stored beyond it", good + "cp.async.bulk.global.shared::cta.bulk_group [%d2 + 208], [%r1], 64;\n",
       FaultKind::kOutOfBounds, "store of 64 bytes at data+208, reaching 16 bytes past its end"},
      {"more bytes than shared memory",
       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], 1048576, [%r2];\n",
       FaultKind::kOutOfBounds, "more bytes than the block has shared memory"},
  };
  for (const FaultRow& row : rows) {
    INFO(row.name);
    Vm vm;
    const BufferId data = vm.buffer(std::vector<uint32_t>(64, 5), "data");
    const BufferId out = vm.raw(64, "out");
    vm.device().set_budget(20000);
    vm.load(kernel_ptx(kParameters, kSetUp + row.body));
    Parameters parameters;
    const View view{{64}, {}, {16}, {1}, {0}};
    parameters.add(vm.device().encode_tensor_map(spec_of(view, vm.address(data))).value());
    parameters.add(vm.address(out)).add(vm.address(data));
    const LaunchReport report = vm.launch("k", {1, 1, 1}, {1, 1, 1}, parameters);
    INFO((report.fault ? report.fault->message : "no fault"));
    CHECK(report.fault.has_value() == (row.message[0] != '\0'));
    if (!report.fault) continue;
    CHECK(report.fault->kind == row.kind);
    CHECK_THAT(report.fault->message, Catch::Contains(row.message));
  }
}

TEST_CASE("bulk copies: a row that ends inside 16 bytes is stored to their end, wherever that is") {
  // 61 words: loads stop at the view's end, a store takes the three words behind it along.
  const struct {
    const char* name;
    size_t words;  ///< of the buffer
    std::string body;
    bool faults;
  } rows[] = {
      {"loaded at the buffer's end", 61, expect(64) + load({48}) + kWait + copy_out(64), false},
      {"stored at the buffer's end", 61, fill_tile(64) + store({48}) + kCommit + kWaitStores, true},
      {"stored with room behind", 64, fill_tile(64) + store({48}) + kCommit + kWaitStores, false},
      {"stored before the last 16 bytes", 61, fill_tile(64) + store({32}) + kCommit + kWaitStores, false},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    Vm vm;
    const BufferId data = vm.buffer(std::vector<uint32_t>(row.words, 5), "data");
    const BufferId out = vm.raw(64, "out");
    vm.load(kernel_ptx(kParameters, kSetUp + row.body));
    Parameters parameters;
    const View view{{61}, {}, {16}, {1}, {0}};
    parameters.add(vm.device().encode_tensor_map(spec_of(view, vm.address(data))).value());
    parameters.add(vm.address(out)).add(vm.address(data));
    const LaunchReport report = vm.launch("k", {1, 1, 1}, {1, 1, 1}, parameters);
    INFO((report.fault ? report.fault->message : "no fault"));
    CHECK(report.fault.has_value() == row.faults);
    if (!report.fault) continue;
    CHECK(report.fault->kind == FaultKind::kOutOfBounds);
    CHECK_THAT(report.fault->message,
               Catch::Contains("store of 64 bytes at data+192, reaching 12 bytes past its end (244 bytes)"));
  }
}

TEST_CASE("bulk copies: buffers that a map must not read or write") {
  struct Row {
    const char* name;
    bool read_only, written;
    std::string body;
    FaultKind kind;
    const char* message;
  };
  const std::string good = expect(64) + load({16}) + kWait;
  const Row rows[] = {
      {"an input is read", true, true, good, FaultKind::kTrap, ""},
      {"an input is written", true, true, good + store({16}), FaultKind::kReadOnlyWrite,
       "store of 64 bytes at grad[0]+64, which is read-only"},
      {"a buffer is written", false, true, good + store({16}), FaultKind::kTrap, ""},
      {"scratch is read before it is written", false, false, good, FaultKind::kUninitializedRead,
       "load of 4 bytes at grad[0]+64, where nothing has been written"},
      {"scratch is written", false, false, fill_tile(64) + store({16}), FaultKind::kTrap, ""},
      {"scratch is written and read", false, false, fill_tile(64) + store({16}) + kCommit + kWaitStores + good,
       FaultKind::kTrap, ""},
      {"scratch is read before the store is over", false, false,
       fill_tile(64) + store({16}) + kCommit + "add.u32 %r1, %r1, 128;\n" + good, FaultKind::kUninitializedRead,
       "at grad[0]+64"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Vm vm;
    const BufferId data = row.written ? vm.buffer(std::vector<uint32_t>(64, 5), "grad[0]", row.read_only)
                                      : vm.raw(256, "grad[0]", row.read_only);
    vm.load(kernel_ptx(kParameters, kSetUp + row.body));
    Parameters parameters;
    const View view{{64}, {}, {16}, {1}, {0}};
    parameters.add(vm.device().encode_tensor_map(spec_of(view, vm.address(data))).value());
    parameters.add(uint64_t{0}).add(uint64_t{0});
    const LaunchReport report = vm.launch("k", {1, 1, 1}, {1, 1, 1}, parameters);
    INFO((report.fault ? report.fault->message : "no fault"));
    CHECK(report.fault.has_value() == (row.message[0] != '\0'));
    if (!report.fault) continue;
    CHECK(report.fault->kind == row.kind);
    CHECK_THAT(report.fault->message, Catch::Contains(row.message));
  }
}

TEST_CASE("bulk copies: maps that the VM does not take") {
  Vm vm;
  const BufferId data = vm.buffer(std::vector<uint32_t>(64, 5), "data");
  vm.load(kernel_ptx(kParameters, kSetUp + expect(64) + load({0}) + kWait));
  const View view{{64}, {}, {16}, {1}, {0}};
  const TensorMapSpec plain = spec_of(view, vm.address(data));
  TensorMapSpec swizzled = plain, filled = plain;
  swizzled.swizzle = TensorMapSwizzle::k64B;
  filled.nan_outside = true;
  TensorMapBytes changed = vm.device().encode_tensor_map(plain).value();
  changed[16] ^= std::byte{16};  // the address
  struct Row {
    const char* name;
    TensorMapBytes map;
    FaultKind kind;
    const char* message;
  };
  const Row rows[] = {
      {"right", vm.device().encode_tensor_map(plain).value(), FaultKind::kTrap, ""},
      {"null", TensorMapBytes{}, FaultKind::kTrap, "there is no tensor map at this address: it is null"},
      {"changed", changed, FaultKind::kTrap, "there is no tensor map"},
      {"swizzle", vm.device().encode_tensor_map(swizzled).value(), FaultKind::kUnsupported, "with a swizzle"},
      {"NaN", vm.device().encode_tensor_map(filled).value(), FaultKind::kUnsupported, "fill with NaN"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Parameters parameters;
    parameters.add(row.map).add(uint64_t{0}).add(uint64_t{0});
    const LaunchReport report = vm.launch("k", {1, 1, 1}, {1, 1, 1}, parameters);
    CHECK(report.fault.has_value() == (row.message[0] != '\0'));
    if (!report.fault) continue;
    CHECK(report.fault->kind == row.kind);
    CHECK_THAT(report.fault->message, Catch::Contains(row.message));
  }
}

TEST_CASE("bulk stores take place when they are waited for, and at the block's end") {
  const std::string change = "mov.u32 %r9, 4242;\nst.shared.u32 [tile], %r9;\n";
  struct Row {
    const char* name;
    std::string body;
    uint32_t first;  ///< word of the buffer
  };
  const Row rows[] = {
      {"waited for", store({0}) + kCommit + kWaitStores + change, 1000},
      {"read and waited for", store({0}) + kCommit + "cp.async.bulk.wait_group.read 0;\n" + change, 1000},
      {"not waited for", store({0}) + kCommit + change, 4242},
      {"not committed", store({0}) + kWaitStores + change, 4242},
      {"one group may stay", store({0}) + kCommit + "cp.async.bulk.wait_group 1;\n" + change + kWaitStores, 4242},
      {"the older of two", store({0}) + kCommit + store({16}) + kCommit + "cp.async.bulk.wait_group 1;\n" + change,
       1000},
      {"an empty group is a group", store({0}) + kCommit + kCommit + "cp.async.bulk.wait_group 1;\n" + change, 1000},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Vm vm;
    const BufferId data = vm.buffer(std::vector<uint32_t>(64, 5), "data");
    vm.load(kernel_ptx(kParameters, kSetUp + fill_tile(64) + row.body));
    Parameters parameters;
    const View view{{64}, {}, {16}, {1}, {0}};
    parameters.add(vm.device().encode_tensor_map(spec_of(view, vm.address(data))).value());
    parameters.add(uint64_t{0}).add(uint64_t{0});
    vm.run("k", {1, 1, 1}, {1, 1, 1}, parameters);
    CHECK(vm.contents<uint32_t>(data, 64)[0] == row.first);
    CHECK(vm.contents<uint32_t>(data, 64)[1] == 1001);
  }
}

TEST_CASE("mbarriers: phases by parity and by state, counts, several threads") {
  // One thread; every answer of a test goes to `out`.
  const std::string say = "selp.u32 %r9, 1, 0, %p1;\nst.global.u32 [%d1], %r9;\nadd.u64 %d1, %d1, 4;\n";
  const auto test = [&](const char* parity) {
    return std::string("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], ") + parity + ";\n" + say;
  };
  const std::string arrive = "mbarrier.arrive.release.cta.shared::cta.b64 %d8, [%r2];\n";
  const std::string by_state = "mbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [%r2], %d8;\n" + say;
  const std::string body =
      kSetUp + "mbarrier.init.shared::cta.b64 [%r2], 2;\n" +  // expects two
      test("0") + test("1") +                                 // 0 1: the phase before is over
      arrive + by_state + test("0") +                         // 0 0
      arrive + by_state + test("0") + test("1") +             // 1 1 0
      "mbarrier.arrive.shared::cta.b64 %d8, [%r2], 2;\n" +    // both at once
      by_state + test("0") + test("1") +                      // 1 0 1
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 16;\n" +
      "mbarrier.arrive.shared::cluster.b64 _, [%r2], 2;\n" + test("0") +  // 0: bytes are missing
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], 16, [%r2];\n" + test("0");  // 1
  Vm vm;
  const BufferId data = vm.buffer(std::vector<uint32_t>(64, 5), "data");
  const BufferId out = vm.buffer(std::vector<uint32_t>(12, 9), "out");
  vm.load(kernel_ptx(kParameters, body));
  Parameters parameters;
  parameters.add(TensorMapBytes{}).add(vm.address(out)).add(vm.address(data));
  vm.run("k", {1, 1, 1}, {1, 1, 1}, parameters);
  CHECK(vm.contents<uint32_t>(out, 12) == std::vector<uint32_t>{0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 1});

  SECTION("96 threads arrive, all wait, each reads what the others wrote") {
    const std::string three = R"(.shared .align 128 .b8 tile[384];
.shared .align 8 .b8 bar[8];
ld.param.u64 %d1, [out];
mov.u32 %r1, %tid.x;
mov.u32 %r2, bar;
setp.ne.u32 %p1, %r1, 0;
@!%p1 mbarrier.init.shared::cta.b64 [%r2], 96;
bar.sync 0;
shl.b32 %r3, %r1, 2;
mov.u32 %r4, tile;
add.u32 %r5, %r4, %r3;
st.shared.u32 [%r5], %r1;
mbarrier.arrive.shared::cta.b64 %d8, [%r2];
WAIT:
mbarrier.try_wait.shared::cta.b64 %p2, [%r2], %d8, 1000;
@!%p2 bra WAIT;
sub.u32 %r6, 380, %r3;
add.u32 %r6, %r6, %r4;
ld.shared.u32 %r7, [%r6];
cvt.u64.u32 %d6, %r3;
add.u64 %d7, %d1, %d6;
st.global.u32 [%d7], %r7;
)";
    for (const char* device : {"vm", "vm:check"}) {
      INFO(device);
      Vm checked(device);
      const BufferId words = checked.raw(384, "out");
      checked.load(kernel_ptx(kParameters, three));
      Parameters more;
      more.add(TensorMapBytes{}).add(checked.address(words)).add(uint64_t{0});
      checked.run("k", {1, 1, 1}, {96, 1, 1}, more);
      for (uint32_t i = 0; i < 96; ++i) CHECK(checked.contents<uint32_t>(words, 96)[i] == 95 - i);
    }
  }
}

TEST_CASE("bulk copies: forms that the VM refuses at load") {
  struct Row {
    const char* name;
    const char* body;
    const char* message;
  };
  const Row rows[] = {
      {"a reduction", "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%d3, {0}], [%r1];",
       "cp.reduce.async.bulk"},
      {"to other blocks",
       "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r1], "
       "[%d3, {0}], "
       "[%r2], %h1;",
       "modifier .multicast::cluster is not supported"},
      {"im2col",
       "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%d3, {0, 0, 0}], "
       "[%r2], "
       "{%h1};",
       "modifier .im2col is not supported"},
      {"coordinates", "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d3, {0}], [%r1];",
       "2 coordinates were expected"},
      {"between blocks",
       "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r3], 16, [%r2];",
       "this direction of a bulk copy is not supported"},
      {"arrive_drop", "mbarrier.arrive_drop.shared::cta.b64 %d5, [%r2];", "modifier .arrive_drop is not supported"},
      {"pending_count", "mbarrier.pending_count.b64 %r5, %d5;", "modifier .pending_count is not supported"},
      {"prefetch is nothing", "cp.async.bulk.prefetch.tensor.1d.L2.global.tile [%d3, {0}];", ""},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Vm vm;
    const Judged<ModuleId> loaded = vm.try_load(kernel_ptx(kParameters, std::string(row.body) + "\n"));
    INFO((loaded.ok() ? "" : loaded.failure->message));
    CHECK(loaded.ok() == (row.message[0] == '\0'));
    if (loaded.ok()) continue;
    CHECK(loaded.failure->verdict == Verdict::kUnsupported);
    CHECK_THAT(loaded.failure->message, Catch::Contains(row.message));
  }
}

TEST_CASE("the VM's tensor maps carry the whole view") {
  TensorMapSpec spec;
  spec.address = 0x7f0000000110;
  spec.dtype = DType::kBf16;
  spec.rank = 5;
  spec.dims = {uint64_t{1} << 32, 2, 3, 4, 5};
  spec.strides_bytes = {(uint64_t{1} << 40) - 16, 32, 48, 64};
  spec.box = {256, 1, 2, 3, 4};
  spec.element_strides = {1, 8, 2, 3, 4};
  spec.swizzle = TensorMapSwizzle::k128B;
  spec.l2 = TensorMapL2::k256B;
  spec.nan_outside = true;
  const TensorMapBytes bytes = vm::encode_tensor_map(spec);
  const std::optional<TensorMapSpec> back = vm::decode_tensor_map(bytes);
  REQUIRE(back);
  CHECK(back->address == spec.address);
  CHECK(back->dtype == spec.dtype);
  CHECK(back->rank == 5);
  CHECK(back->dims == spec.dims);
  CHECK(back->strides_bytes == spec.strides_bytes);
  CHECK(back->box == spec.box);
  CHECK(back->element_strides == spec.element_strides);
  CHECK(back->swizzle == spec.swizzle);
  CHECK(back->l2 == spec.l2);
  CHECK(back->nan_outside);
  // No other bit pattern is a map: every single bit counts, padding too.
  for (size_t bit = 0; bit < 8 * sizeof bytes; ++bit) {
    TensorMapBytes other = bytes;
    other[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    CHECK_FALSE(vm::decode_tensor_map(other));
  }
}

}  // namespace
}  // namespace stepbench
