// Records -> plots: which numbers go on which axis. How a plot is drawn stands in board_svg.h.
#pragma once

#include <string>
#include <vector>

#include "harness/model.h"
#include "scoring/board_svg.h"

namespace stepbench {

/// One plot per case of the drift check: the error of every buffer that is judged, in units of its limit, over the
/// steps.
std::vector<Plot> drift_plots(const EvalRecord& record);

/// Time of a step, and the share of the floor that it reaches, over the number of parameters: candidate and baseline.
/// None when the record was not timed.
std::vector<Plot> speed_plots(const EvalRecord& record);

}  // namespace stepbench
