// What one evaluation's record promises: the same salt gives the same record with any number of threads, another salt
// other data, and a replay of one case the same failure.
#include "tests/check/fixtures.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

/// Wrong for large tensors only, so that some cases pass before one fails.
void large_skipped(const AdamwLaunch& a) {
  if (a.n <= 1000) right(a);
}
void right_until_400(const AdamwLaunch& a) {
  if (a.launch <= 800) right(a);
}

}  // namespace

TEST_CASE("records do not depend on the number of threads") {
  const TaskSpec task = small_adamw_task();
  const std::pair<const char*, AdamwBody> rows[] = {
      {"passes", right}, {"fails in families", large_skipped}, {"fails in drift", right_until_400}};
  for (const auto& [name, body] : rows) {
    DYNAMIC_SECTION(name) {
      EvalOptions options;
      options.salt = 3;
      options.threads = 1;
      const std::string one = timeless(evaluate_fake(task, body, options));
      for (const int threads : {1, 2, 5}) {
        options.threads = threads;
        INFO(threads);
        CHECK(timeless(evaluate_fake(task, body, options)) == one);
      }
    }
  }
}

TEST_CASE("a replay of the failing case gives the identical failure") {
  const TaskSpec task = small_adamw_task();
  const std::pair<const char*, AdamwBody> rows[] = {{"families", large_skipped}, {"drift", right_until_400}};
  for (const auto& [name, body] : rows) {
    DYNAMIC_SECTION(name) {
      EvalOptions options;
      options.salt = 9;
      const EvalRecord record = evaluate_fake(task, body, options);
      REQUIRE(record.failure);
      CHECK(record.failure->check == name);
      options.only_check = record.failure->check;
      options.only_case = record.failure->case_name;
      const EvalRecord again = evaluate_fake(task, body, options);
      REQUIRE(again.failure);
      CHECK(again.cases.size() == 1);
      CHECK(again.failure->message == record.failure->message);
      CHECK(again.failure->detail == record.failure->detail);
      CHECK(again.failure->seed == record.failure->seed);
      CHECK(again.failure->step == record.failure->step);
      CHECK(again.failure->element == record.failure->element);
      CHECK(again.replay_command == record.replay_command);
    }
  }
}

TEST_CASE("another salt gives other data") {
  const TaskSpec task = small_adamw_task();
  EvalOptions options;
  options.salt = 1;
  const EvalRecord first = evaluate_fake(task, large_skipped, options);
  options.salt = 2;
  const EvalRecord second = evaluate_fake(task, large_skipped, options);
  REQUIRE(first.failure);
  REQUIRE(second.failure);
  CHECK(first.failure->case_name == second.failure->case_name);
  CHECK(first.failure->seed != second.failure->seed);
  CHECK(first.failure->expected != second.failure->expected);
  CHECK(first.salt == "0000000000000001");
  CHECK(second.salt == "0000000000000002");
}

TEST_CASE("requests that cannot be met are errors, not verdicts") {
  const TaskSpec task = small_adamw_task();
  struct {
    const char* name;
    const char* suite;
    const char* check;
    const char* one;
    ErrorCode code;
  } const rows[] = {
      {"suite", "gigantic", "", "", ErrorCode::kUsage},
      {"check", "smoke", "edgy", "", ErrorCode::kUsage},
      {"case without check", "smoke", "", "x", ErrorCode::kUsage},
      {"case", "smoke", "edges", "no such case", ErrorCode::kNotFound},
      {"drift case", "smoke", "drift", "no such case", ErrorCode::kNotFound},
      {"determinism case", "smoke", "determinism", "no such case", ErrorCode::kNotFound},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      EvalOptions options;
      options.suite = row.suite;
      options.only_check = row.check;
      options.only_case = row.one;
      const Result<EvalRecord> record =
          evaluate_compiled(adamw_candidate(), task, fake_module(), fake_devices(task, right), options, nullptr);
      REQUIRE(!record.ok());
      CHECK(record.error().code == row.code);
      CHECK(!record.error().expected.empty());
    }
  }
}

TEST_CASE("faults and device errors") {
  const TaskSpec task = small_adamw_task();
  const auto open_with = [&](std::function<std::optional<Fault>(int64_t)> fault_at) -> OpenDevice {
    return [&task, fault_at]() -> Result<std::unique_ptr<Device>> {
      auto device = std::make_unique<FakeDevice>();
      auto count = std::make_shared<int64_t>(0);
      device->add_kernel("adamw_step", {"ptr", "ptr", "ptr", "ptr", "i64", "ptr"},
                         [fault_at, count](const LaunchSpec&, FakeDevice&) { return fault_at(++*count); });
      return std::unique_ptr<Device>(std::move(device));
    };
  };
  struct {
    const char* name;
    FaultKind kind;
    Verdict verdict;
  } const rows[] = {
      {"out of bounds", FaultKind::kOutOfBounds, Verdict::kOutOfBounds},
      {"race", FaultKind::kRace, Verdict::kRace},
      {"endless loop", FaultKind::kBudget, Verdict::kTimeout},
      {"unsupported", FaultKind::kUnsupported, Verdict::kUnsupported},
  };
  for (const auto& row : rows) {
    DYNAMIC_SECTION(row.name) {
      const auto open = open_with([&](int64_t) {
        Fault fault;
        fault.kind = row.kind;
        fault.message = "a fault";
        fault.kernel = "adamw_step";
        return std::optional<Fault>(fault);
      });
      const Result<EvalRecord> record =
          evaluate_compiled(adamw_candidate(), task, fake_module(), open, EvalOptions{}, nullptr);
      REQUIRE(record.ok());
      REQUIRE(record.value().failure);
      CHECK(record.value().verdict == row.verdict);
      CHECK(record.value().failure->check == "edges");
      CHECK(!record.value().failure->case_name.empty());
      CHECK(record.value().failure->step >= 1);
      CHECK(record.value().failure->seed != 0);
    }
  }
  SECTION("a device that breaks is not the candidate's fault") {
    const OpenDevice open = []() -> Result<std::unique_ptr<Device>> {
      return Error{ErrorCode::kResource, "out of device memory", "", "", ""};
    };
    const Result<EvalRecord> record =
        evaluate_compiled(adamw_candidate(), task, fake_module(), open, EvalOptions{}, nullptr);
    REQUIRE(!record.ok());
    CHECK(record.error().code == ErrorCode::kResource);
  }
}

TEST_CASE("progress counts the cases of each check up to its total") {
  const TaskSpec task = small_adamw_task();
  std::vector<Progress> seen;
  const Result<EvalRecord> record =
      evaluate_compiled(adamw_candidate(), task, fake_module(), fake_devices(task, right), EvalOptions{},
                        [&](const Progress& progress) { seen.push_back(progress); });
  REQUIRE(record.ok());
  int64_t edges = 0;
  for (const Progress& progress : seen) {
    CHECK(progress.done <= std::max<int64_t>(progress.total, 0));
    if (progress.stage == "edges") edges = std::max(edges, progress.done);
  }
  CHECK(edges == 5);
}
