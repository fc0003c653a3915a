// The contract of tasks/<id>/oracle.cc: the update in double precision on the host. Independent of any
// device and of the harness; includes nothing but this file, what else lies in tasks/, and the standard library.
//
// A task's folder name gives the functions' names: tasks/adamw/oracle.cc defines `oracle_adamw`, and, where it needs
// them, `oracle_reduce_adamw` and `oracle_properties_adamw`. The build looks for them and generates the table, so that
// adding a task edits no other file.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// ORACLE_EACH_LEVEL stands before a step whose elements do not depend on one another: it is compiled for each
/// instruction-set level, and the best that the machine has is chosen when the program starts. ORACLE_ELEMENTS stands
/// before its loop over elements and says what the compiler cannot know: buffers and scales do not overlap. Every level
/// gives the same bits, for each operation is rounded by itself. Billions of values go through these loops. Sanitizers
/// and other compilers see them once: a choice at start-up comes before a sanitizer is ready for it.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ORACLE_EACH_LEVEL __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#define ORACLE_ELEMENTS _Pragma("GCC ivdep")
#else
#define ORACLE_EACH_LEVEL
#define ORACLE_ELEMENTS
#endif

namespace stepbench {

/// One tensor of the list, or a part of it. `buffers[i]` has the elements of the task's i-th buffer (task.json order)
/// as doubles; inputs are read, `inout` buffers are updated in place, to what the update stores: where the task fixes a
/// storage format and the way to round to it, the rounded value.
/// `scale[i]` (same length; null for inputs, and null when the caller does not want it) receives for every
/// element the sum of the magnitudes of the terms that enter its movement in this step, including the
/// amplification of rounding errors of the states it depends on. A faithful fp32 evaluation stays within a
/// small multiple of 2^-24 * scale plus the rounding of the stored value; the harness's limits are
/// multiples of it, never absolute numbers.
/// `exact[i]` (null where not wanted and for buffers without a "rounding") receives the value before it is rounded, in
/// the units of the stored one; for codes a real number that grows with the value and lies halfway between two codes
/// where the value is equally far from both. A candidate's fp32 value may fall on the other side of such a boundary, so
/// this number and not the rounded one is compared.
/// `stored[i]` (null unless a candidate's step is judged, then given for every `inout` buffer) holds what the candidate
/// stored. A buffer that is defined by another stored one (the bf16 copy of a master weight, the code relative to its
/// block's scale) is expected to fit that one.
struct OracleTensor {
  int64_t n = 0, rows = 0, cols = 0;
  int64_t index = 0;  ///< of the tensor in the candidate's list
  int64_t first = 0;  ///< index in the tensor of buffers[i][0] for buffers of n elements; a multiple of 256
  std::span<double* const> buffers;
  std::span<double* const> scale;
  std::span<double* const> exact;
  std::span<const double* const> stored;
  /// Sums over the whole list that the task's OracleReduce made before any tensor was updated; empty for tasks without.
  std::span<const double> totals{};
  /// Threads that the oracle may use for this call, its own included: more than one for large tensors that it gets
  /// whole (tasks/spread.h). Results must not depend on it.
  int threads = 1;
  /// What a step leaves for the properties of the same tensor, so that they need not compute it again; null where
  /// nothing will be asked, empty in properties where no step left anything.
  std::vector<double>* work = nullptr;
};

/// One optimizer step over elements [first, last) of one tensor; called from several threads on disjoint
/// ranges, cut at multiples of 256, for tasks of the families "elementwise" and "storage" and those with an
/// OracleReduce; for all others with whole tensors, which it may cut itself among OracleTensor::threads. `hyper` holds
/// the task's Hyper fields in task.json order, exactly the fp32 / int values the device sees; derived fields (bias
/// corrections ...) must be recomputed in double here.
using OracleStep = void (*)(const OracleTensor& tensor, std::span<const double> hyper, int64_t first, int64_t last);

/// How many sums an OracleReduce may make.
inline constexpr int kOracleTotals = 4;

/// Adds one tensor's share to sums over the list, which start at zero: what the step of one element must know of all
/// others, such as the squared norm of the gradient; given the sums, elements must not depend on one another. Called
/// for every tensor, empty ones included, or for parts of it, with its inputs: the pointers of states are null, the
/// tensor's other spans empty. Shares are added in the order of the list, whatever the number of threads. For tasks of
/// the family "norm".
using OracleReduce = void (*)(const OracleTensor& tensor, std::span<const double> hyper, std::span<double> totals);

/// Measures what the candidate stored against what every right result has (TaskSpec::properties, one value for each).
/// `buffers` hold the values after the oracle's own step (inputs as they were given), `stored` the candidate's.
using OracleProperties = void (*)(const OracleTensor& tensor, std::span<const double> hyper, std::span<double> values);

struct OracleEntry {
  const char* task = nullptr;
  OracleStep step = nullptr;
  OracleReduce reduce = nullptr;
  OracleProperties properties = nullptr;
};

/// Generated at configure time from tasks/*/oracle.cc.
std::span<const OracleEntry> oracle_table();

}  // namespace stepbench
