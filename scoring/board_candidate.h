// Parts of a record's page, each adding its values to the page's view. Internal to scoring/board_candidate*.cc.
#pragma once

#include "harness/model.h"
#include "scoring/board_site.h"
#include "scoring/score.h"

namespace stepbench {

/// NaN is worse than any number.
inline bool is_worse(double a, double b) { return a != a ? b == b : a > b; }

void add_speed(View& view, const BoardRow& row, const EvalRecord& record, const Score& score);
void add_checks(View& view, const EvalRecord& record);
void add_drift(View& view, const EvalRecord& record);
void add_work(View& view, const EvalRecord& record);

}  // namespace stepbench
