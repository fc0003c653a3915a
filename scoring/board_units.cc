// See board_units.h.
#include "scoring/board_units.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

namespace stepbench {
namespace {

/// Three digits, none of them an exponent: for values of 0.001 to 9999.
std::string three_digits(double value) {
  const double magnitude = std::fabs(value);
  if (magnitude >= 99.95) return fmt::format("{:.0f}", value);
  if (magnitude >= 9.995) return fmt::format("{:.1f}", value);
  if (magnitude >= 0.9995 || magnitude == 0) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

/// A word for what is not finite; empty for what is.
std::string word_of(double value) {
  if (std::isnan(value)) return "not a number";
  if (std::isinf(value)) return value > 0 ? "infinite" : "minus infinite";
  return "";
}

struct Prefix {
  double factor;
  const char* unit;
};

constexpr Prefix kTimeUnits[] = {{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}};
constexpr Prefix kSizeUnits[] = {{1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}};

/// With the largest unit of which the value has one or more. `step` is the ratio of two units; where it is 1000, what
/// would be rounded to 1000 of a unit is one of the next. Short: as many digits as a round number needs.
template <size_t kCount>
std::string with_unit(double value, const Prefix (&prefixes)[kCount], double step, bool short_form = false) {
  if (const std::string word = word_of(value); !word.empty()) return word;
  const double least = step == 1000 ? 0.9995 : 1;
  size_t chosen = 0;
  for (size_t i = 1; i < kCount; ++i)
    if (std::fabs(value) >= prefixes[i].factor * least) chosen = i;
  const double scaled = value / prefixes[chosen].factor;
  const bool is_whole = chosen == 0 && scaled == std::floor(scaled);
  const std::string digits = short_form ? fmt::format("{:.4g}", scaled)
                             : is_whole ? fmt::format("{:.0f}", scaled)
                                        : three_digits(scaled);
  return *prefixes[chosen].unit ? fmt::format("{} {}", digits, prefixes[chosen].unit) : digits;
}

int digits_at(std::string_view text, size_t at, size_t count) {
  int value = 0;
  for (size_t i = at; i < at + count; ++i) {
    if (i >= text.size() || text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

}  // namespace

std::string time_text(double ns) { return with_unit(ns, kTimeUnits, 1000); }

std::string short_time_text(double ns) { return with_unit(ns, kTimeUnits, 1000, true); }

std::string rate_text(double bytes_per_s) {
  constexpr Prefix kUnits[] = {{1, "B/s"}, {1e3, "kB/s"}, {1e6, "MB/s"}, {1e9, "GB/s"}, {1e12, "TB/s"}};
  return with_unit(bytes_per_s, kUnits, 1000);
}

std::string flops_text(double flops_per_s) {
  constexpr Prefix kUnits[] = {{1, "FLOP/s"}, {1e9, "GFLOP/s"}, {1e12, "TFLOP/s"}};
  return with_unit(flops_per_s, kUnits, 1000);
}

std::string bytes_text(double bytes) {
  constexpr Prefix kUnits[] = {{1, "B"}, {1024, "KiB"}, {1048576, "MiB"}, {1073741824, "GiB"}};
  return with_unit(bytes, kUnits, 1024);
}

std::string size_text(double count) { return with_unit(count, kSizeUnits, 1000); }

std::string short_size_text(double count) { return with_unit(count, kSizeUnits, 1000, true); }

std::string count_text(int64_t count) {
  std::string text = fmt::format("{}", count);
  for (size_t at = text.size(); at > (count < 0 ? 4u : 3u);) text.insert(at -= 3, 1, ',');
  return text;
}

std::string number_of(int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count_text(count), thing, count == 1 ? "" : "s");
}

std::string speedup_text(double ratio) {
  if (const std::string word = word_of(ratio); !word.empty()) return word;
  return ratio >= 100 ? fmt::format("{:.1f}×", ratio) : fmt::format("{:.3f}×", ratio);
}

std::string short_speedup_text(double ratio) { return fmt::format("{:.4g}×", ratio); }

std::string short_percent_text(double ratio) { return fmt::format("{:.4g} %", ratio * 100); }

std::string percent_text(double ratio) {
  if (const std::string word = word_of(ratio); !word.empty()) return word;
  return fmt::format("{:.1f} %", ratio * 100);
}

std::string number_text(double value) {
  if (const std::string word = word_of(value); !word.empty()) return word;
  return fmt::format("{:.3g}", value);
}

std::string exact_text(double value) {
  if (const std::string word = word_of(value); !word.empty()) return word;
  return fmt::format("{:.9g}", value);
}

std::string limit_text(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:.3g} × the limit", ratio) : word_of(ratio);
}

std::string wall_text(double ms) {
  if (const std::string word = word_of(ms); !word.empty()) return word;
  if (ms < 999.5) return fmt::format("{:.0f} ms", ms);
  if (ms < 59'950) return fmt::format("{:.1f} s", ms / 1000);
  const double seconds = std::round(ms / 1000);
  return fmt::format("{:.0f} min {:.0f} s", std::floor(seconds / 60), std::fmod(seconds, 60));
}

std::optional<double> seconds_of_utc(std::string_view utc) {
  if (utc.size() < 20 || utc[4] != '-' || utc[7] != '-' || utc[10] != 'T' || utc[13] != ':' || utc[16] != ':' ||
      utc.back() != 'Z')
    return {};
  const int year = digits_at(utc, 0, 4), month = digits_at(utc, 5, 2), day = digits_at(utc, 8, 2);
  const int hour = digits_at(utc, 11, 2), minute = digits_at(utc, 14, 2), second = digits_at(utc, 17, 2);
  if (year < 0 || month < 1 || day < 1 || hour < 0 || minute < 0 || second < 0) return {};
  if (hour > 23 || minute > 59 || second > 60) return {};
  using namespace std::chrono;
  const year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return {};
  const auto days = sys_days(date).time_since_epoch().count();
  return static_cast<double>(days) * 86400.0 + hour * 3600 + minute * 60 + second;
}

std::string utc_of_seconds(double seconds) {
  using namespace std::chrono;
  const auto whole = static_cast<int64_t>(std::floor(seconds));
  const int64_t day_number = (whole >= 0 ? whole : whole - 86399) / 86400;
  const int64_t rest = whole - day_number * 86400;
  const year_month_day date{sys_days{days{static_cast<int>(day_number)}}};
  return fmt::format("{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), rest / 3600,
                     rest / 60 % 60, rest % 60);
}

std::string day_text(std::string_view utc) { return std::string(seconds_of_utc(utc) ? utc.substr(0, 10) : utc); }

std::string minute_text(std::string_view utc) {
  if (!seconds_of_utc(utc)) return std::string(utc);
  return fmt::format("{} {} UTC", utc.substr(0, 10), utc.substr(11, 5));
}

}  // namespace stepbench
