// The contract of tasks/<id>/oracle.cc: the update in double precision on the host. Independent of any
// device and of the harness; includes nothing but this file and the standard library.
//
// A task's folder name gives the function's name: tasks/adamw/oracle.cc defines `oracle_adamw`. The build
// lists the folders and generates the table, so that adding a task edits no other file.
#pragma once

#include <cstdint>
#include <span>

namespace stepbench {

/// One tensor of the list. `buffers[i]` has the elements of the task's i-th buffer (task.json order) as
/// doubles; inputs are read, `inout` buffers are updated in place.
/// `scale[i]` (same length; null for inputs, and null when the caller does not want it) receives for every
/// element the sum of the magnitudes of the terms that enter its movement in this step, including the
/// amplification of rounding errors of the states it depends on. A faithful fp32 evaluation stays within a
/// small multiple of 2^-24 * scale plus the rounding of the stored value; the harness's limits are
/// multiples of it, never absolute numbers.
struct OracleTensor {
  int64_t n = 0, rows = 0, cols = 0;
  std::span<double* const> buffers;
  std::span<double* const> scale;
};

/// One optimizer step over elements [first, last) of one tensor; called from several threads on disjoint
/// ranges for element-wise tasks. `hyper` holds the task's Hyper fields in task.json order, exactly the fp32 /
/// int values the device sees; derived fields (bias corrections ...) must be recomputed in double here.
using OracleStep = void (*)(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last);

struct OracleEntry {
  const char* task = nullptr;
  OracleStep step = nullptr;
};

/// Generated at configure time from tasks/*/oracle.cc.
std::span<const OracleEntry> oracle_table();

}  // namespace stepbench
