// Numbers -> text with units, for people. Three digits are kept where nothing is said; what is not finite is a word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stepbench {

std::string time_text(double ns);                              ///< "834 ns", "12.3 µs", "4.56 ms", "1.20 s"
std::string flops_text(double flops_per_s);                    ///< "752 TFLOP/s"
std::string rate_text(double bytes_per_s);                     ///< "4.02 TB/s", decimal prefixes as in data sheets
std::string bytes_text(double bytes);                          ///< "512 B", "64.0 KiB", "50.0 MiB"
std::string count_text(int64_t count);                         ///< "1,234,567"
std::string number_of(int64_t count, std::string_view thing);  ///< "1 record", "2,000 records"
std::string size_text(double count);            ///< "950", "1.23 k", "124 M", "7.00 G": for tensors and axes
std::string speedup_text(double ratio);         ///< "1.234×"
std::string short_time_text(double ns);         ///< "10 ms": for axes, whose ticks are round numbers
std::string short_size_text(double count);      ///< "10 M"
std::string short_speedup_text(double ratio);   ///< "1.2×": for axes
std::string short_percent_text(double ratio);   ///< "80 %": for axes
std::string percent_text(double ratio);         ///< "87.3 %" of 0.873
std::string number_text(double value);          ///< "0.0123", "1.23e-05", "not a number", "infinite"
std::string exact_text(double value);           ///< nine digits: enough to tell any two fp32 numbers apart
std::string limit_text(double ratio);           ///< "0.0123 × the limit"
std::string wall_text(double ms);               ///< "850 ms", "12.3 s", "4 min 10 s": of the host
std::string day_text(std::string_view utc);     ///< "2026-12-01" of ISO 8601; the text itself when it is something else
std::string minute_text(std::string_view utc);  ///< "2026-12-01 23:50 UTC"

/// Seconds since 1970 of "2026-12-01T23:50:26Z"; nothing when the text is no such time.
std::optional<double> seconds_of_utc(std::string_view utc);
/// The other way: "2026-12-01T23:50:26Z".
std::string utc_of_seconds(double seconds);

}  // namespace stepbench
