// Loops over one large tensor, shared among the threads that an oracle is given (OracleTensor::threads). Cuts depend on
// lengths alone, and what is summed is summed for every block by itself and then in the blocks' order: no bit of a
// result depends on the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace stepbench {

/// Elements that one call of a loop's body handles: some ten to hundred microseconds of work. A tensor of no more is
/// one block, for which no thread is started.
inline constexpr int64_t kSpreadElements = 1 << 15;

/// Memory whose elements are written by the loop that fills them: the system hands out its pages to all threads, and
/// not to the one that makes it. Begins at a multiple of 64 bytes: where vectors begin in a product's result, and with
/// that the last digits of what lies before them, depends on its address.
template <class T>
class Unfilled {
 public:
  explicit Unfilled(size_t count)
      : values_(static_cast<T*>(::operator new(std::max<size_t>(count, 1) * sizeof(T), kAlignment))), count_(count) {}
  size_t size() const { return count_; }
  T* data() { return values_.get(); }
  T& operator[](size_t i) { return values_[i]; }
  const T& operator[](size_t i) const { return values_[i]; }

 private:
  static_assert(std::is_trivial_v<T>);
  static constexpr std::align_val_t kAlignment{64};
  struct Release {
    void operator()(T* values) const { ::operator delete(values, kAlignment); }
  };
  std::unique_ptr<T[], Release> values_;
  size_t count_;
};

/// Runs work(i) for i in [0, count) on up to `threads` threads, the caller's among them, and returns when all is done.
/// `work` must not throw.
void spread(int64_t threads, size_t count, const std::function<void(size_t)>& work);

/// work(begin, end) for the blocks of [first, last).
template <class Work>
void spread_blocks(int64_t threads, int64_t first, int64_t last, const Work& work) {
  const int64_t count = std::max<int64_t>(0, last - first);
  spread(threads, static_cast<size_t>((count + kSpreadElements - 1) / kSpreadElements), [&](size_t block) {
    const int64_t begin = first + static_cast<int64_t>(block) * kSpreadElements;
    work(begin, std::min(begin + kSpreadElements, last));
  });
}

/// The same with what every block returns, added up in order. A `Sum` begins at zero and has +=.
template <class Sum, class Work>
Sum spread_sum(int64_t threads, int64_t first, int64_t last, const Work& work) {
  const int64_t count = std::max<int64_t>(0, last - first);
  std::vector<Sum> sums(static_cast<size_t>((count + kSpreadElements - 1) / kSpreadElements));
  spread_blocks(threads, first, last, [&](int64_t begin, int64_t end) {
    sums[static_cast<size_t>((begin - first) / kSpreadElements)] = work(begin, end);
  });
  Sum total{};
  for (const Sum& sum : sums) total += sum;
  return total;
}

/// term(i) added up for i in [0, count), in eight interleaved sums: an addition need not wait for the one before it.
template <class Term>
double sum_in_lanes(size_t count, const Term& term) {
  constexpr size_t kLanes = 8;
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  for (; i < count; ++i) lanes[i % kLanes] += term(i);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace stepbench
