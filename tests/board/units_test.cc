// Numbers with units, by tables.
#include "scoring/board_units.h"

#include <catch2/catch.hpp>
#include <limits>

namespace stepbench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("times have the unit that fits, and three digits") {
  const struct {
    double ns;
    const char* text;
  } rows[] = {{0, "0 ns"},         {1, "1 ns"},          {12.34, "12.3 ns"},     {834, "834 ns"},
              {999.4, "999 ns"},   {999.6, "1.00 µs"},   {1000, "1.00 µs"},      {12'345, "12.3 µs"},
              {999'400, "999 µs"}, {999'600, "1.00 ms"}, {4'560'000, "4.56 ms"}, {1.2e9, "1.20 s"},
              {1e14, "100000 s"},  {0.25, "0.250 ns"},   {kNan, "not a number"}, {kInfinity, "infinite"}};
  for (const auto& row : rows) CHECK(time_text(row.ns) == row.text);
}

TEST_CASE("sizes, rates, shares and counts have their units") {
  CHECK(size_text(950) == "950");
  CHECK(size_text(1234) == "1.23 k");
  CHECK(size_text(124'439'808) == "124 M");
  CHECK(size_text(7e9) == "7.00 G");
  CHECK(short_size_text(1e8) == "100 M");
  CHECK(short_time_text(1e7) == "10 ms");
  CHECK(bytes_text(512) == "512 B");
  CHECK(bytes_text(65'536) == "64.0 KiB");
  CHECK(bytes_text(50u << 20) == "50.0 MiB");
  CHECK(rate_text(4.02e12) == "4.02 TB/s");
  CHECK(flops_text(752.4e12) == "752 TFLOP/s");
  CHECK(flops_text(61.25e12) == "61.2 TFLOP/s");
  CHECK(flops_text(0.9e12) == "900 GFLOP/s");
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(1000) == "1,000");
  CHECK(count_text(1'234'567) == "1,234,567");
  CHECK(count_text(-1000) == "-1,000");
  CHECK(count_text(-100) == "-100");
  CHECK(number_of(1, "record") == "1 record");
  CHECK(number_of(0, "record") == "0 records");
  CHECK(number_of(2000, "task") == "2,000 tasks");
  CHECK(speedup_text(1.2344) == "1.234×");
  CHECK(speedup_text(kNan) == "not a number");
  CHECK(short_speedup_text(0.5) == "0.5×");
  CHECK(percent_text(0.8734) == "87.3 %");
  CHECK(short_percent_text(0.2) == "20 %");
  CHECK(number_text(0.000012345) == "1.23e-05");
  CHECK(exact_text(-0.0340412698) == "-0.0340412698");
  CHECK(limit_text(9.22) == "9.22 × the limit");
  CHECK(limit_text(kInfinity) == "infinite");
  CHECK(wall_text(850) == "850 ms");
  CHECK(wall_text(12'345) == "12.3 s");
  CHECK(wall_text(250'000) == "4 min 10 s");
  CHECK(wall_text(119'999) == "2 min 0 s");
}

TEST_CASE("dates are read, written and refused") {
  const struct {
    const char* utc;
    double seconds;
  } rows[] = {// from `date -u -d ... +%s`
              {"1970-01-01T00:00:00Z", 0},
              {"2000-02-29T12:00:00Z", 951825600},
              {"2026-12-01T23:50:26Z", 1796169026},
              {"1969-12-31T23:59:59Z", -1},
              {"2100-03-01T00:00:00Z", 4107542400}};
  for (const auto& row : rows) {
    INFO(row.utc);
    REQUIRE(seconds_of_utc(row.utc));
    CHECK(*seconds_of_utc(row.utc) == row.seconds);
    CHECK(utc_of_seconds(row.seconds) == row.utc);
  }
  for (const char* bad : {"", "yesterday", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-12-01 23:50:26Z",
                          "2026-12-01T24:00:00Z", "2026-12-01T23:50:26", "2026-1a-01T00:00:00Z"}) {
    INFO(bad);
    CHECK_FALSE(seconds_of_utc(bad));
    CHECK(day_text(bad) == bad);
  }
  CHECK(day_text("2026-12-01T23:50:26Z") == "2026-12-01");
  CHECK(minute_text("2026-12-01T23:50:26Z") == "2026-12-01 23:50 UTC");
}

}  // namespace
}  // namespace stepbench
