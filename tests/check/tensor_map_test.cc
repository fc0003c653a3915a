// Whole candidates with tensor maps, from their text to the verdict with the real compiler and the VM.
#include "tests/check/real_kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Row {
  const char* name;
  const char* find;  ///< in the candidate's text; empty: as it is
  const char* replace;
  Verdict verdict;
  const char* message;
};

void check_rows(const std::string& id, const std::string& path, std::span<const Row> rows) {
  if (!can_compile()) return;
  const TaskSpec task = real_task(id);
  for (const Row& row : rows) {
    INFO(id << ": " << row.name);
    std::string text = text_of(path);
    const std::string find = row.find;
    if (!find.empty()) {
      const size_t at = text.find(find);
      REQUIRE(at != std::string::npos);
      text.replace(at, find.size(), row.replace);
    }
    const EvalRecord record = evaluate_text(task, path, text, real_options("smoke", 3));
    INFO((record.failure ? record.failure->message : ""));
    CHECK(record.verdict == row.verdict);
    if (record.failure) CHECK_THAT(record.failure->message, Catch::Contains(row.message));
  }
}

}  // namespace

TEST_CASE("tiles of matrices through shared memory pass, and one mistake each does not") {
  const Row rows[] = {
      {"as it is", "", "", Verdict::kPassed, ""},
      {"four columns too far", "const int x = static_cast<int>(blockIdx.x) % tile_columns * COLS;",
       "const int x = static_cast<int>(blockIdx.x) % tile_columns * COLS + 4;", Verdict::kWrongResult, "differs"},
      {"a column too far", "const int x = static_cast<int>(blockIdx.x) % tile_columns * COLS;",
       "const int x = static_cast<int>(blockIdx.x) % tile_columns * COLS + 1;", Verdict::kLaunchError,
       "the first coordinate of a bulk tensor copy must be a multiple of 16 bytes"},
      {"not waited for", "  wait_parity(&barrier, 0);", "", Verdict::kUninitializedRead, "shared memory"},
      {"fewer bytes expected", "\"r\"(static_cast<unsigned>(sizeof tiles))", "\"r\"(4096u)",
       Verdict::kUninitializedRead, "shared memory"},
      {"more bytes expected", "\"r\"(static_cast<unsigned>(sizeof tiles))", "\"r\"(16384u)", Verdict::kTimeout,
       "endless loop"},
      {"a row too many", R"({"tensor_map": {"of": "param", "dims": ["cols", "rows"])",
       R"({"tensor_map": {"of": "param", "dims": ["cols", "rows + 1"])", Verdict::kBadCandidate, "it reaches to byte"},
      {"misaligned tensors without or_null", R"("box": ["COLS", "ROWS"], "or_null": true)",
       R"("box": ["COLS", "ROWS"])", Verdict::kBadCandidate, "with \"or_null\": true the kernel gets a null map there"},
      {"null maps used", "if (param_map.is_null() || grad_map.is_null() || buffer_map.is_null()) {", "if (n == 0) {",
       Verdict::kLaunchError, "there is no tensor map at this address: it is null"},
      {"the wrong buffer stored", "store_tile(buffer_map, x, y, tiles[2]);", "store_tile(grad_map, x, y, tiles[2]);",
       Verdict::kOutOfBounds, "which is read-only"},
  };
  check_rows("sgd_momentum", std::string(STEPBENCH_TEST_FOLDER) + "/cuda/tensor_map/sgd_tiles.cu", rows);
}

TEST_CASE("rows of any length in two buffers pass, and one mistake each does not") {
  const Row rows[] = {
      {"as it is", "", "", Verdict::kPassed, ""},
      {"an end inside 16 bytes stored by a map", " ||\n      n % 4 != 0)", ")", Verdict::kOutOfBounds,
       "belong to no element: a store through a tensor map writes whole pieces of 16 bytes"},
      {"loaded over what is being stored", "      asm volatile(\"cp.async.bulk.wait_group.read 0;\" ::: \"memory\");\n",
       "", Verdict::kRace, "a bulk copy writes shared memory that a store, not waited for, is reading"},
      {"the wrong half waited for", "wait_parity(&barrier[s], turn / 2 % 2);",
       "wait_parity(&barrier[0], turn / 2 % 2);", Verdict::kUninitializedRead, "shared memory"},
  };
  check_rows("adamw", std::string(STEPBENCH_TEST_FOLDER) + "/cuda/tensor_map/adamw_rows.cu", rows);
}
