// Least times of a step: work and times worked out by hand, what decides when, and that no published way to do a step
// needs less arithmetic than the tasks say.
#include <catch2/catch.hpp>
#include <cmath>

#include "harness/floor.h"
#include "harness/stages.h"

namespace stepbench {
namespace {

/// Round numbers: 4 TB/s, 50 TFLOP/s in fp32, 750 TFLOP/s in products; an L2 cache of nothing.
Calibration rates() {
  Calibration c;
  c.read_bytes_per_s = c.copy_bytes_per_s = 4e12;
  c.fp32_flops_per_s = 50e12;
  c.tensor_flops_per_s = 750e12;
  c.fp32_sm_mhz = c.tensor_sm_mhz = c.highest_sm_mhz = 1800;
  return c;
}

/// A task of nothing but work.
TaskSpec task_of(double bytes_per_param, const char* fp32, const char* tensor, const char* tensor_gate = "") {
  TaskSpec task;
  task.id = "by_hand";
  task.bytes_per_param = bytes_per_param;
  task.flops = {fp32, tensor, tensor_gate};
  return task;
}

Floor need(const Result<Floor>& floor) {
  if (!floor.ok()) FAIL(to_text(floor.error()));
  return floor.value();
}

TEST_CASE("work of the shipped tasks, by hand") {
  const struct {
    const char* task;
    std::vector<std::vector<int64_t>> list;
    double bytes, fp32, tensor, tensor_gate;
  } rows[] = {
      {"adamw", {{1000}, {10, 20}, {0}}, 28 * 1200.0, 14 * 1200.0, 0, 0},
      // 768 x 3072: 3 * 2,359,296 * 768 = 5,435,817,984 and 7 * 768^3 = 3,170,893,824; tall or wide is the same.
      {"muon_ns5", {{768, 3072}}, 18'874'368, 4'718'592, 8'606'711'808, 4'303'355'904},
      {"muon_ns5", {{3072, 768}, {0, 5}}, 18'874'368, 4'718'592, 8'606'711'808, 4'303'355'904},
      // Up to a short side of 128 only the first and the last product are counted: 3 * 128 * 300 * 128.
      {"muon", {{128, 300}}, 20 * 38'400.0, 384'000, 14'745'600, 7'372'800},
      // 9 * 6 * (2 + 3)
      {"soap_fixed_basis", {{2, 3}}, 168, 84, 270, 270},
      // 4.5 * 76,800 * 556 = 192,153,600; the side of 256 is large enough: 3.5 * 300^3 = 94,500,000 and 3.5 * 256^3.
      {"shampoo", {{300, 256}}, 44 * 76'800.0, 18 * 76'800.0, 345'373'856, 345'373'856},
      {"shampoo", {{300, 100}}, 44 * 30'000.0, 540'000, 4.5 * 30'000 * 400 + 94'500'000, 148'500'000},
  };
  for (const auto& row : rows) {
    INFO(row.task << " " << row.list[0][0]);
    std::vector<TensorShape> tensors;
    for (const auto& dims : row.list) tensors.push_back(make_shape(dims));
    const Result<Work> work = work_of(load_task(row.task).value(), tensors);
    REQUIRE(work.ok());
    CHECK(work.value().bytes == row.bytes);
    CHECK(work.value().fp32_flops == row.fp32);
    CHECK(work.value().tensor_flops == row.tensor);
    CHECK(work.value().tensor_gate_flops == row.tensor_gate);
  }
}

TEST_CASE("Newton-Schulz of 768 x 3072 takes 11.5 us of products at 750 TFLOP/s") {
  const std::vector<TensorShape> tensors = {make_shape({768, 3072})};
  const TaskSpec task = load_task("muon_ns5").value();
  const Floor floor = need(floor_of(task, tensors, rates(), GateRule{}));
  CHECK(floor.floor_by == FloorBy::kTensor);
  CHECK(floor.floor_ns == Approx(11'475.6).epsilon(1e-5));  // 8,606,711,808 / 750e12; 18,874,368 bytes take 4,719 ns
  // Half of the products, 49/64 of them by Strassen, 1.5 times as fast: 4,303,355,904 * 0.765625 / 1125e12 = 2,928.7
  // ns. To read and write at 1.03 * 4 TB/s takes longer.
  CHECK(floor.gate_by == FloorBy::kMemory);
  CHECK(floor.gate_ns == Approx(18'874'368 / 4.12e12 * 1e9));
  Calibration large_cache = rates();  // all 9,437,184 written bytes may still be in it: 2,290.6 ns
  large_cache.l2_bytes = uint64_t{50} << 20;
  const Floor cached = need(floor_of(task, tensors, large_cache, GateRule{}));
  CHECK(cached.gate_by == FloorBy::kTensor);
  CHECK(cached.gate_ns == Approx(2'928.7).epsilon(1e-4));
  CHECK_THAT(cached.gate_reason, Catch::Contains("cannot do the products") && Catch::Contains("750 TFLOP/s"));
  CHECK(cached.floor_ns == floor.floor_ns);
}

TEST_CASE("whatever takes longest decides, and what is not known decides nothing") {
  const std::vector<TensorShape> tensors = {make_shape({1000, 1000})};
  const double n = 1e6;
  const struct {
    const char* name;
    TaskSpec task;
    std::function<void(Calibration&)> change;
    FloorBy floor_by;
    double floor_ns;
    FloorBy gate_by;
    double gate_ns;
    const char* left_out;
  } rows[] = {
      {"memory alone", task_of(28, "", ""), nullptr, FloorBy::kMemory, n * 28 / 4e3, FloorBy::kMemory, n * 28 / 4.12e3,
       ""},
      {"little arithmetic", task_of(28, "14*n", ""), nullptr, FloorBy::kMemory, n * 28 / 4e3, FloorBy::kMemory,
       n * 28 / 4.12e3, ""},
      {"much in fp32", task_of(28, "1000*n", ""), nullptr, FloorBy::kFp32, n * 1000 / 50e3, FloorBy::kFp32,
       n * 1000 / 51.5e3, ""},
      {"the clock was lower when it was measured", task_of(28, "1000*n", ""),
       [](Calibration& c) { c.fp32_sm_mhz = 900; }, FloorBy::kFp32, n * 1000 / 50e3, FloorBy::kFp32, n * 1000 / 103e3,
       ""},
      {"a clock above the highest is no reason for less", task_of(28, "1000*n", ""),
       [](Calibration& c) { c.fp32_sm_mhz = 2000; }, FloorBy::kFp32, n * 1000 / 50e3, FloorBy::kFp32, n * 1000 / 51.5e3,
       ""},
      {"clocks unknown: no gate", task_of(28, "1000*n", ""), [](Calibration& c) { c.highest_sm_mhz = 0; },
       FloorBy::kFp32, n * 1000 / 50e3, FloorBy::kMemory, n * 28 / 4.12e3, ""},
      {"rate unknown", task_of(28, "1000*n", ""), [](Calibration& c) { c.fp32_flops_per_s = 0; }, FloorBy::kMemory,
       n * 28 / 4e3, FloorBy::kMemory, n * 28 / 4.12e3, "fp32 arithmetic"},
      {"products", task_of(28, "14*n", "64*n*rows"), nullptr, FloorBy::kTensor, n * 64'000 / 750e3, FloorBy::kTensor,
       n * 49'000 / 1125e3, ""},
      {"products at half the clock", task_of(28, "14*n", "64*n*rows"), [](Calibration& c) { c.tensor_sm_mhz = 900; },
       FloorBy::kTensor, n * 64'000 / 750e3, FloorBy::kTensor, n * 49'000 / (750e3 * 2.4), ""},
      {"a gate of its own", task_of(28, "", "64*n*rows", "32*n*rows"), nullptr, FloorBy::kTensor, n * 64'000 / 750e3,
       FloorBy::kTensor, n * 24'500 / 1125e3, ""},
      {"no cuBLASLt", task_of(28, "14*n", "64*n*rows"), [](Calibration& c) { c.tensor_flops_per_s = 0; },
       FloorBy::kMemory, n * 28 / 4e3, FloorBy::kMemory, n * 28 / 4.12e3, "products (tensor cores)"},
      {"neither", task_of(28, "1000*n", "64*n*rows"),
       [](Calibration& c) { c.tensor_flops_per_s = c.fp32_flops_per_s = 0; }, FloorBy::kMemory, n * 28 / 4e3,
       FloorBy::kMemory, n * 28 / 4.12e3, "fp32 arithmetic and products (tensor cores)"},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      Calibration calibration = rates();
      if (row.change) row.change(calibration);
      const Floor floor = need(floor_of(row.task, tensors, calibration, GateRule{}));
      CHECK(floor.floor_by == row.floor_by);
      CHECK(floor.floor_ns == Approx(row.floor_ns));
      CHECK(floor.gate_by == row.gate_by);
      CHECK(floor.gate_ns == Approx(row.gate_ns));
      CHECK(floor.left_out == row.left_out);
      CHECK_FALSE(floor.gate_reason.empty());
    }
  }
}

TEST_CASE("the gate leaves the cache out of what must be written") {
  const TaskSpec adamw = load_task("adamw").value();
  const std::vector<TensorShape> tensors = {make_shape({1 << 20})};
  Calibration calibration = rates();
  calibration.read_bytes_per_s = 5e12;
  GateRule rule;
  rule.rate_ratio = 1;
  const double bytes = 28.0 * (1 << 20), written = 12.0 * (1 << 20);
  const auto gate_ns = [&] { return need(floor_of(adamw, tensors, calibration, rule)).gate_ns; };
  CHECK(gate_ns() == Approx(bytes / 5e12 * 1e9));
  calibration.l2_bytes = 1 << 20;
  CHECK(gate_ns() == Approx((bytes - (1 << 20)) / 5e12 * 1e9));
  calibration.l2_bytes = uint64_t{1} << 30;
  CHECK(gate_ns() == Approx((bytes - written) / 5e12 * 1e9));
}

TEST_CASE("a formula without a value is an error with the formula") {
  const std::vector<TensorShape> tensors = {make_shape({4, 5})};
  const Result<Floor> floor = floor_of(task_of(28, "14*depth", ""), tensors, rates(), GateRule{});
  REQUIRE_FALSE(floor.ok());
  CHECK_THAT(to_text(floor.error()), Catch::Contains("14*depth"));
}

TEST_CASE("every shipped task has arithmetic, none in matrices alone, and its gate is no stricter than its floor") {
  for (const std::string& id : list_tasks().value()) {
    INFO(id);
    const TaskSpec task = load_task(id).value();
    const std::vector<TensorShape> tensors = {make_shape({512, 512})};
    const Work work = work_of(task, tensors).value();
    CHECK(work.fp32_flops > 0);
    CHECK((work.tensor_flops > 0) == (task.family == "matrix"));
    CHECK(work.tensor_gate_flops <= work.tensor_flops);
    // Reading alone, at some 10^13 bytes per second, is slower than this arithmetic on any GPU: it decides nowhere.
    CHECK(work.fp32_flops <= 30 * 512.0 * 512);
  }
}

TEST_CASE("no published way to do a step needs fewer operations than the tasks count") {
  const struct {
    const char* task;
    int64_t rows, cols;
    double known;  ///< operations
    const char* way;
  } rows[] = {
      // m x m products of commuting symmetric matrices, half of each: A^2, S = R A, A' = S R in four iterations and A^2
      // in the last, P' = R P in four: 17 m^3. The Gram matrix by half, and P x.
      {"muon_ns5", 768, 768, (1 + 17 + 2) * 768.0 * 768 * 768, "iterations on the Gram matrix, symmetric halves"},
      {"muon_ns5", 2048, 8192, (4 + 17 + 8) * std::pow(2048.0, 3), "iterations on the Gram matrix, symmetric halves"},
      {"muon", 768, 3072, 5 * (4 + 1 + 8) * 768.0 * 768 * 768, "as Jordan et al. write it, symmetric halves"},
      // Four products with fp32 as two pieces of 11 bits each: three passes (Markidis et al. 2018, Ootomo and Yokota
      // 2022: "tf32x3").
      {"soap_fixed_basis", 1024, 1024, 3 * 4 * 1024.0 * 1024 * 2048, "three passes of 11-bit pieces"},
      // Eigenvectors by tridiagonal reduction (4/3 s^3), divide and conquer and back transformation (4 s^3 together at
      // least, Golub and Van Loan, section 8.4), X = (Q f) Q^T by half (s^3); both factors and the direction once.
      {"shampoo", 512, 512, (3 + 2 * (4.0 / 3 + 4 + 1)) * std::pow(512.0, 3) + 3 * std::pow(512.0, 3), "eigenvectors"},
  };
  for (const auto& row : rows) {
    INFO(row.task << " " << row.rows << " x " << row.cols << ": " << row.way);
    const std::vector<TensorShape> tensors = {make_shape({row.rows, row.cols})};
    const Work work = work_of(load_task(row.task).value(), tensors).value();
    CHECK(work.tensor_flops <= row.known);
    CHECK(work.tensor_flops >= row.known / 4);  // and the floor still says something
  }
}

// tasks/muon_ns5/README.md: six products after the Gram matrix reach degree 64 in it, 129 in x, and a polynomial of
// that degree cannot rise as steeply as five iterations do (Bernstein: |p'(x)| <= degree * max |p| / sqrt(1 - x^2)).
TEST_CASE("five iterations rise more steeply than six products can") {
  const auto phi = [](double s) {
    for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
    return s;
  };
  double largest = 0;
  for (int i = 0; i <= 1'000'000; ++i) largest = std::max(largest, std::fabs(phi(i * 1e-6)));
  CHECK(largest == Approx(1.2024).epsilon(1e-3));
  constexpr double kAllowed = 0.1;  // 4 E, E at most 2.5 % of the result
  const double x = 3e-3, steepness = (1 - kAllowed) * phi(x) / x * std::sqrt(1 - x * x);
  const double least_degree = steepness / ((1 + kAllowed) * largest);
  CHECK(least_degree > 2 * 64 + 1);
  CHECK(least_degree < 2 * 128 + 1);  // by this argument seven products are possible, and more are not claimed
}

}  // namespace
}  // namespace stepbench
