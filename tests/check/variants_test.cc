// Every known-good kernel must pass, whatever the random numbers: a check that fails one is too strict. Every kernel
// has a salt of its own. Prints how much room is left to the limit.
#include <cstdio>

#include "tests/check/real_kernels.h"

using namespace stepbench;
using namespace stepbench::testing;

namespace {

void check_variants(const std::string& family) {
  if (!can_compile()) return;
  for (const std::string& id : task_ids()) {
    const TaskSpec task = real_task(id);
    if (task.family != family) continue;
    const Result<std::vector<Variant>> variants = load_variants(task);
    if (!variants.ok()) FAIL(to_text(variants.error()));
    uint64_t salt = 0;
    for (const Variant& variant : variants.value()) {
      ++salt;
      const EvalRecord record = evaluate_file(task, variant.path, real_options("smoke", salt));
      INFO(id << ": " << variant.name << " salt " << salt);
      INFO((record.failure ? record.failure->message + "\n" + record.failure->detail + "\n" + record.replay_command
                           : ""));
      const CaseReport worst = worst_case(record);
      std::printf("%-14s %-40s %-12s %.3f of the limit (%s, %s, %s)  %.2f B/param  %.0f ms\n", id.c_str(),
                  variant.name.c_str(), std::string(to_text(record.verdict)).c_str(), worst.worst_error_ratio,
                  worst.check.c_str(), worst.case_name.c_str(), worst.worst_buffer.c_str(),
                  record.modelled_bytes_per_param, record.wall_ms);
      CHECK(record.verdict == Verdict::kPassed);
      // Half of the limit is what a right form may need over many salts: far beyond it the limits want a look.
      CHECK(worst.worst_error_ratio < 0.6);
      CHECK(record.modelled_bytes_per_param >= 0.999 * record.ideal_bytes_per_param);
    }
  }
}

}  // namespace

// One test per family: each has the time limit of a test to itself.
TEST_CASE("every variant and baseline passes: elementwise") { check_variants("elementwise"); }
TEST_CASE("every variant and baseline passes: storage") { check_variants("storage"); }
TEST_CASE("every variant and baseline passes: norm") { check_variants("norm"); }
TEST_CASE("every variant and baseline passes: matrix") { check_variants("matrix"); }
