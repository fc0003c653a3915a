// The harness's own kernels that move and make data, compiled by NVRTC and run by the VM, which sees every access: so
// they are tested where there is no GPU, too.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "harness/generate.h"
#include "harness/own_kernels.h"
#include "tests/check/real_kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

struct OwnKernels {
  std::unique_ptr<Device> device = std::move(open_device("vm:check").value());
  ModuleId module;

  OwnKernels() {
    CompileOptions options = real_options("smoke", 1).compile;
    options.arch = device->info().arch;
    const Result<CompiledModule> compiled = compile_own_kernels(options);
    if (!compiled.ok()) FAIL(to_text(compiled.error()));
    const Result<Judged<ModuleId>> loaded = device->load(compiled.value());
    if (!loaded.ok()) FAIL(to_text(loaded.error()));
    if (!loaded.value().ok()) FAIL(loaded.value().failure->message);
    module = *loaded.value().value;
  }

  BufferId make(uint64_t bytes, uint32_t offset_bytes, const std::string& label) {
    return device->allocate({bytes, offset_bytes, false, label}).value();
  }
  template <class T>
  BufferId table(const std::vector<T>& rows) {
    const BufferId buffer = device->allocate({rows.size() * sizeof(T), 0, true, "table"}).value();
    REQUIRE(device->write(buffer, 0, std::as_bytes(std::span(rows))).ok());
    return buffer;
  }
  void launch(const char* entry, size_t blocks, const std::vector<uint64_t>& words) {
    LaunchSpec spec;
    spec.module = module;
    spec.entry = entry;
    spec.grid = {static_cast<int64_t>(blocks), 1, 1};
    spec.block = {256, 1, 1};
    spec.parameters = std::as_bytes(std::span(words));
    const Result<LaunchReport> report = device->launch(spec);
    if (!report.ok()) FAIL(to_text(report.error()));
    if (report.value().fault) FAIL(report.value().fault->message);
  }
  std::vector<std::byte> read(BufferId buffer, uint64_t bytes) {
    std::vector<std::byte> out(bytes);
    REQUIRE(device->read(buffer, 0, out).ok());
    return out;
  }
};

}  // namespace

TEST_CASE("values made for a whole list by one launch are those of the host, bit for bit") {
  if (!can_compile()) return;
  OwnKernels kernels;
  struct Row {
    uint64_t first_chunk = 0, out = 0, count = 0, seed = 0;
    float amplitude = 1;
    uint32_t squared = 0, format = 0, unused = 0;
  };
  const auto chunk = static_cast<int64_t>(own_kernel::kGenerateChunk);
  std::vector<GenerateRequest> requests;
  std::vector<Row> rows;
  uint64_t chunks = 0;
  for (const int64_t count : {int64_t{1}, int64_t{255}, chunk - 1, chunk, chunk + 1, 2 * chunk + 300, int64_t{7}}) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      const bool squared = rows.size() % 2 == 1;
      const GenerateSpec spec{dtype, derive_seed(3, "rows", rows.size()), squared ? 0.01f : 1.5f, squared, count};
      const uint64_t bytes = static_cast<uint64_t>(count) * dtype_bytes(dtype);
      const BufferId out = kernels.make(bytes, dtype_bytes(dtype), fmt::format("out[{}]", rows.size()));
      requests.push_back({out, spec});
      rows.push_back({chunks, kernels.device->address(out), static_cast<uint64_t>(count), spec.seed, spec.amplitude,
                      squared ? 1u : 0u,
                      dtype == DType::kF32    ? 0u
                      : dtype == DType::kBf16 ? 1u
                                              : 2u,
                      0});
      chunks += (static_cast<uint64_t>(count) + own_kernel::kGenerateChunk - 1) / own_kernel::kGenerateChunk;
    }
  }
  kernels.launch(own_kernel::kGenerateAll, chunks, {kernels.device->address(kernels.table(rows)), rows.size()});
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO("row " << i << " of " << rows[i].count);
    const std::vector<std::byte> expected = generated_values(requests[i].spec, 0, requests[i].spec.count);
    CHECK((kernels.read(requests[i].buffer, expected.size()) == expected));
    // The way of every device that makes no list of its own.
    REQUIRE(kernels.device->poison(requests[i].buffer, i).ok());
  }
  REQUIRE(kernels.device->generate_all(requests).ok());
  for (const GenerateRequest& one : requests) {
    const std::vector<std::byte> expected = generated_values(one.spec, 0, one.spec.count);
    CHECK((kernels.read(one.buffer, expected.size()) == expected));
  }
}

TEST_CASE("pieces of every size and alignment are copied, and nothing beside them") {
  if (!can_compile()) return;
  OwnKernels kernels;
  struct Row {
    uint64_t to = 0, from = 0, bytes = 0, unused = 0;
  };
  struct Piece {
    uint64_t bytes = 0;
    uint32_t skew = 0;
    BufferId from, to;
    std::vector<std::byte> values;
  };
  constexpr uint64_t kMargin = 16;
  std::vector<Piece> pieces;
  std::vector<Row> rows;
  for (const uint64_t bytes : {1, 2, 3, 15, 16, 17, 31, 33, 4095, 4096, 16384, 16400, 65536}) {
    for (const uint32_t skew : {0, 1, 2, 4, 8, 15}) {
      Piece piece{bytes, skew, {}, {}, std::vector<std::byte>(bytes)};
      for (uint64_t i = 0; i < bytes; ++i) piece.values[i] = static_cast<std::byte>(i * 31 + bytes + skew);
      piece.from = kernels.make(bytes, skew, "from");
      piece.to = kernels.make(bytes + 2 * kMargin, skew, "to");
      REQUIRE(kernels.device->write(piece.from, 0, piece.values).ok());
      REQUIRE(kernels.device->write(piece.to, 0, std::vector<std::byte>(bytes + 2 * kMargin)).ok());
      rows.push_back({kernels.device->address(piece.to) + kMargin, kernels.device->address(piece.from), bytes, 0});
      pieces.push_back(std::move(piece));
    }
  }
  kernels.launch(own_kernel::kCopyPieces, rows.size(), {kernels.device->address(kernels.table(rows))});
  for (const Piece& piece : pieces) {
    INFO(piece.bytes << " bytes at " << piece.skew);
    std::vector<std::byte> expected(kMargin);
    expected.insert(expected.end(), piece.values.begin(), piece.values.end());
    expected.resize(expected.size() + kMargin);
    CHECK((kernels.read(piece.to, expected.size()) == expected));
  }
}
