// The guard kernel of the CUDA device, run by the VM: it finds the first byte that differs, whatever the ends of the
// rows, and never lowers the result for bytes outside of them. So it is tested where there is no GPU too.
#include "harness/cuda/guard_kernel.h"

#include "tests/vm/vm_fixture.h"

using namespace stepbench;
using namespace stepbench::vm_test;

namespace {

constexpr uint8_t kPattern = 0xa7;
constexpr uint64_t kUntouched = ~uint64_t{0};
constexpr uint64_t kBytes = uint64_t{1} << 20;  // four pieces of every thread, more than once

constexpr uint64_t kStride = uint64_t{16} * cuda::kGuardThreads * cuda::kGuardBlocksPerRow;

struct Row {
  uint64_t begin = 0, end = 0;
};

}  // namespace

TEST_CASE("the guard kernel finds the first damaged byte of its rows") {
  const struct {
    const char* name;
    std::vector<Row> rows;          // offsets in the buffer
    std::vector<uint64_t> damaged;  // offsets whose byte is changed
    uint64_t expected;              // offset, or kUntouched
  } cases[] = {
      {"nothing damaged", {{0, 4096}, {4099, 8191}}, {}, kUntouched},
      {"first byte", {{0, 4096}}, {0}, 0},
      {"last byte", {{0, 4096}}, {4095}, 4095},
      {"just behind a row", {{0, 4096}}, {4096}, kUntouched},
      {"ragged begin, byte before it", {{5, 100}}, {4}, kUntouched},
      {"ragged begin, its byte", {{5, 100}}, {5}, 5},
      {"ragged begin at 3 of 4", {{7, 100}}, {4, 5, 6}, kUntouched},
      {"ragged end, byte behind it", {{8, 33}}, {33, 34, 35}, kUntouched},
      {"ragged end, its byte", {{8, 33}}, {32}, 32},
      {"ragged end at 3 of 4", {{8, 35}}, {34, 35}, 34},
      {"a row inside one word", {{13, 15}}, {12, 15}, kUntouched},
      {"its bytes", {{13, 15}}, {14}, 14},
      {"one byte", {{22, 23}}, {22}, 22},
      {"the first of several", {{0, 8192}}, {8000, 700, 701, 3000}, 700},
      {"in the second row", {{0, 16}, {32, 48}}, {20, 47}, 47},
      {"a row longer than a block's stride", {{1, 8191}}, {8190}, 8190},
      {"a long row, its first byte", {{3, kBytes - 3}}, {3}, 3},
      {"a long row, the byte before it", {{3, kBytes - 3}}, {2}, kUntouched},
      {"a long row, its last byte", {{3, kBytes - 3}}, {kBytes - 4}, kBytes - 4},
      {"a long row, the byte behind it", {{3, kBytes - 3}}, {kBytes - 3}, kUntouched},
      {"a long row, first of four pieces", {{0, kBytes}}, {kStride * 4 + 37}, kStride * 4 + 37},
      {"second of four", {{0, kBytes}}, {kStride * 5 + 1}, kStride * 5 + 1},
      {"third of four", {{0, kBytes}}, {kStride * 2 + 4095}, kStride * 2 + 4095},
      {"last of four", {{0, kBytes}}, {kStride * 3 + 16}, kStride * 3 + 16},
      {"fewer than four left", {{0, kStride * 7}}, {kStride * 7 - 1}, kStride * 7 - 1},
      {"everywhere", {{kStride + 2, kBytes}}, {kStride * 9, kStride * 3 + 2, kStride + 1}, kStride * 3 + 2},
  };
  for (const auto& row : cases) {
    DYNAMIC_SECTION(row.name) {
      std::unique_ptr<Device> device = std::move(open_device("vm:check").value());
      CompiledModule compiled;
      compiled.ptx = cuda::kGuardKernelPtx;
      Result<Judged<ModuleId>> loaded = device->load(compiled);
      REQUIRE(loaded.ok());
      REQUIRE(loaded.value().ok());
      const BufferId memory = device->allocate({kBytes, 0, true, "memory"}).value();
      const BufferId table = device->allocate({row.rows.size() * sizeof(Row), 0, true, "rows"}).value();
      const BufferId result = device->allocate({8, 0, false, "result"}).value();
      std::vector<uint8_t> bytes(kBytes, kPattern);
      for (const uint64_t offset : row.damaged) bytes[offset] ^= 0x10;
      std::vector<Row> rows = row.rows;
      for (Row& one : rows) {
        one.begin += device->address(memory);
        one.end += device->address(memory);
      }
      uint64_t found = kUntouched;
      REQUIRE(device->write(memory, 0, std::as_bytes(std::span(bytes))).ok());
      REQUIRE(device->write(table, 0, std::as_bytes(std::span(rows))).ok());
      REQUIRE(device->write(result, 0, std::as_bytes(std::span(&found, 1))).ok());
      Parameters parameters;
      parameters.add(device->address(table)).add(device->address(result)).add(kPattern * 0x01010101u);
      LaunchSpec spec;
      spec.module = *loaded.value().value;
      spec.entry = cuda::kGuardKernelName;
      spec.grid = {static_cast<int64_t>(rows.size()), cuda::kGuardBlocksPerRow, 1};
      spec.block = {cuda::kGuardThreads, 1, 1};
      spec.parameters = parameters.bytes;
      const Result<LaunchReport> launched = device->launch(spec);
      REQUIRE(launched.ok());
      if (launched.value().fault) FAIL(launched.value().fault->message);
      REQUIRE(device->read(result, 0, std::as_writable_bytes(std::span(&found, 1))).ok());
      CHECK(found == (row.expected == kUntouched ? kUntouched : device->address(memory) + row.expected));
    }
  }
}
