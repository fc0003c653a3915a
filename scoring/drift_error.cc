// See drift_error.h.
#include "scoring/drift_error.h"

#include <algorithm>
#include <cmath>

namespace stepbench {

std::optional<double> drift_error_ratio(const EvalRecord& record, const DriftCurve& curve, const DriftPoint& point) {
  if (!(curve.limit_ratio > 0)) return {};
  if (point.error_ratio) return point.error_ratio;
  const double without_roundings = point.rms_ratio / curve.limit_ratio;
  const auto report = std::find_if(record.cases.begin(), record.cases.end(), [&](const CaseReport& one) {
    return one.check == "drift" && one.case_name == curve.case_name;
  });
  // An error that is no number stays one.
  return report != record.cases.end() && report->worst_error_ratio < without_roundings ? report->worst_error_ratio
                                                                                       : without_roundings;
}

std::optional<double> worst_drift_error_ratio(const EvalRecord& record) {
  std::optional<double> worst;
  for (const DriftCurve& curve : record.drift) {
    for (const DriftPoint& point : curve.points) {
      const std::optional<double> ratio = drift_error_ratio(record, curve, point);
      if (!ratio) continue;
      if (std::isnan(*ratio)) return ratio;
      if (!worst || *ratio > *worst) worst = ratio;
    }
  }
  return worst;
}

}  // namespace stepbench
