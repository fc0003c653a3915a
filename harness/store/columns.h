// The columns of the table `facts`, once: what binds, reads, names, compares and prints them walks this list. Its texts
// and their order are those of the schema, where `sequence` comes first.
#pragma once

#include "harness/store.h"

namespace stepbench {

template <class V, class Row>
void columns(V& visit, Row& row) {
  visit("id", row.id);
  visit("created_utc", row.created_utc);
  visit("task", row.task);
  visit("task_version", row.task_version);
  visit("suite", row.suite);
  visit("salt", row.salt);
  visit("verdict", row.verdict);
  visit("failed_in", row.failed_in);
  visit("whole", row.whole);
  visit("candidate_sha256", row.candidate_sha256);
  visit("path", row.path);
  visit("submission", row.submission);
  visit("model", row.model);
  visit("round", row.round);
  visit("prompt_tokens", row.prompt_tokens);
  visit("completion_tokens", row.completion_tokens);
  visit("cost_usd", row.cost_usd);
  visit("stepbench_version", row.stepbench_version);
  visit("device", row.device);
  visit("gpu_uuid", row.gpu_uuid);
  visit("driver", row.driver);
  visit("compiler", row.compiler);
  visit("baseline", row.baseline);
  visit("method", row.method);
  visit("wall_ms", row.wall_ms);
  visit("registers", row.registers);
  visit("modelled_bytes_per_param", row.modelled_bytes_per_param);
  visit("ideal_bytes_per_param", row.ideal_bytes_per_param);
  visit("speedup", row.score.speedup);
  visit("speedup_low", row.score.low);
  visit("speedup_high", row.score.high);
  visit("floor_ratio", row.score.floor_ratio);
  visit("retention_ratio", row.score.retention_ratio);
  visit("scored_lists", row.score.lists);
}

}  // namespace stepbench
