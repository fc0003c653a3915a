// Geometry of the charts: ticks and places with known answers, and what must hold for every chart, however odd.
#include "scoring/board_svg.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "scoring/board_plots.h"
#include "scoring/board_units.h"
#include "tests/board/html.h"
#include "tests/board/sample.h"

namespace stepbench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string plain(double value) { return fmt::format("{:g}", value); }

std::vector<double> tick_values(const PlotRange& range, AxisScale scale, int most) {
  std::vector<double> values;
  for (const PlotTick& tick : plot_ticks(range, scale, most, plain)) values.push_back(tick.value);
  return values;
}

TEST_CASE("ticks are round numbers inside the range") {
  const struct {
    const char* name;
    PlotRange range;
    AxisScale scale;
    int most;
    std::vector<double> ticks;
  } rows[] = {
      {"unit", {0, 1}, AxisScale::kLinear, 6, {0, 0.2, 0.4, 0.6, 0.8, 1}},
      {"fewer", {0, 1}, AxisScale::kLinear, 3, {0, 0.5, 1}},
      {"across zero", {-1, 3}, AxisScale::kLinear, 5, {-1, 0, 1, 2, 3}},
      {"speedups", {0.83, 1.17}, AxisScale::kLinear, 5, {0.9, 1, 1.1}},
      {"large", {0, 45'000}, AxisScale::kLinear, 5, {0, 10'000, 20'000, 30'000, 40'000}},
      {"decades", {1e-4, 2}, AxisScale::kLog, 7, {1e-4, 1e-3, 1e-2, 1e-1, 1}},
      {"every second decade", {1e-9, 1}, AxisScale::kLog, 5, {1e-8, 1e-6, 1e-4, 1e-2, 1}},
      {"one decade", {1, 10}, AxisScale::kLog, 5, {1, 2, 5, 10}},
      {"less than a decade", {2, 4.5}, AxisScale::kLog, 4, {2, 3, 4}},
      {"days", {0, 3 * 86'400.0}, AxisScale::kTime, 4, {0, 86'400, 172'800, 259'200}},
      {"hours", {3600, 4 * 3600}, AxisScale::kTime, 4, {3600, 7200, 10'800, 14'400}},
      // 1970: January has 31 days, February 28, March 31.
      {"months", {0, 95 * 86'400.0}, AxisScale::kTime, 4, {0, 31 * 86'400.0, 59 * 86'400.0, 90 * 86'400.0}},
      {"years", {0, 1100 * 86'400.0}, AxisScale::kTime, 4, {0, 365 * 86'400.0, 730 * 86'400.0, 1096 * 86'400.0}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const std::vector<double> ticks = tick_values(row.range, row.scale, row.most);
    REQUIRE(ticks.size() == row.ticks.size());
    for (size_t i = 0; i < ticks.size(); ++i) CHECK(ticks[i] == Approx(row.ticks[i]).epsilon(1e-9).margin(1e-12));
  }
}

TEST_CASE("ticks of time are dates, or times of a day") {
  const auto texts = [](double low, double high) {
    std::vector<std::string> found;
    for (const PlotTick& tick : plot_ticks({low, high}, AxisScale::kTime, 4, nullptr)) found.push_back(tick.text);
    return found;
  };
  CHECK(texts(1796083200, 1796083200 + 3 * 86'400.0) ==
        std::vector<std::string>{"2026-12-01", "2026-12-02", "2026-12-03", "2026-12-04"});
  CHECK(texts(1796083200, 1796083200 + 3 * 3600) ==
        std::vector<std::string>{"12-01 00:00", "12-01 01:00", "12-01 02:00", "12-01 03:00"});
}

TEST_CASE("a range holds its values") {
  const struct {
    const char* name;
    std::vector<double> values;
    AxisScale scale;
    double low, high;
  } rows[] = {
      {"none", {}, AxisScale::kLinear, 0, 1},
      {"none, log", {}, AxisScale::kLog, 0.1, 10},
      {"only what cannot be shown", {-1, 0, kNan, kInfinity}, AxisScale::kLog, 0.1, 10},
      {"log, ends of 1 2 5", {0.0003, 40}, AxisScale::kLog, 0.0002, 50},
      {"one value, log", {3}, AxisScale::kLog, 2, 5},
      {"zero alone", {0}, AxisScale::kLinear, -0.5, 0.5},
      {"two values and room", {1, 2}, AxisScale::kLinear, 0.94, 2.06},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const PlotRange range = plot_range(row.values, row.scale);
    CHECK(range.low == Approx(row.low));
    CHECK(range.high == Approx(row.high));
  }
}

TEST_CASE("places on an axis") {
  CHECK(plot_position(1, {1, 3}, AxisScale::kLinear) == 0);
  CHECK(plot_position(2, {1, 3}, AxisScale::kLinear) == 0.5);
  CHECK(plot_position(3, {1, 3}, AxisScale::kLinear) == 1);
  CHECK(plot_position(10, {1, 100}, AxisScale::kLog) == Approx(0.5));
}

bool apart(const PlotBox& a, const PlotBox& b) {
  return a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
}

void check_layout(const RenderedPlot& plot) {
  CHECK_NOTHROW(html::read("<!doctype html>" + plot.svg));
  for (size_t i = 0; i < plot.texts.size(); ++i) {
    const PlotBox& box = plot.texts[i];
    INFO(box.text << " at " << box.x << ", " << box.y << ", width " << box.width);
    CHECK(box.x >= -1);
    CHECK(box.x + box.width <= plot.width + 1);
    CHECK(box.y >= 0);
    CHECK(box.y + box.height <= plot.height);
    for (size_t j = i + 1; j < plot.texts.size(); ++j) {
      INFO(plot.texts[j].text);
      CHECK(apart(box, plot.texts[j]));
    }
  }
}

TEST_CASE("no text of a chart covers another or leaves the drawing") {
  std::mt19937_64 random(20260601);
  const auto uniform = [&] { return sample::uniform(random); };
  for (int round = 0; round < 300; ++round) {
    Plot plot;
    plot.id = "p";
    plot.title = "title";
    plot.description = "description";
    const auto scale = [&] { return static_cast<AxisScale>(random() % 3); };
    plot.x = {"steps", scale(), short_size_text, {}};
    plot.y = {"time of a step", scale(), short_time_text, {}};
    const double x_spread = std::pow(10, 6 * uniform()), y_spread = std::pow(10, 9 * uniform());
    const int series_count = 1 + static_cast<int>(random() % 6);
    for (int s = 0; s < series_count; ++s) {
      PlotSeries series{std::string(1 + random() % 40, 'n'), static_cast<SeriesForm>(random() % 5), s, {}};
      const int points = static_cast<int>(random() % 30);
      for (int i = 0; i < points; ++i)
        series.points.push_back({.x = std::pow(x_spread, uniform()) * 1e3,
                                 .y = std::pow(y_spread, uniform()),
                                 .label = random() % 2 ? fmt::format("#{}", i) : ""});
      plot.series.push_back(std::move(series));
    }
    if (round % 3 == 0) plot.rules = {{"limit of all that is", 1, false}, {"some other line", 1500, true}};
    INFO("round " << round);
    check_layout(render_plot(plot));
  }
}

TEST_CASE("charts of real records keep their texts apart") {
  for (const EvalRecord& record : sample::records()) {
    for (const Plot& plot : drift_plots(record)) check_layout(render_plot(plot));
    for (const Plot& plot : speed_plots(record)) check_layout(render_plot(plot));
  }
}

Plot one_series(AxisScale y_scale, std::vector<PlotPoint> points) {
  Plot plot;
  plot.id = "p";
  plot.title = "t";
  plot.description = "d";
  plot.x = {"x", AxisScale::kLinear, plain, {}};
  plot.y = {"y", y_scale, plain, {}};
  plot.series = {{"s", SeriesForm::kLine, 0, std::move(points)}};
  return plot;
}

TEST_CASE("what a scale cannot show is counted and said") {
  const RenderedPlot plot =
      render_plot(one_series(AxisScale::kLog, {{1, 1}, {2, 0}, {3, -1}, {4, kNan}, {5, kInfinity}, {kNan, 1}, {6, 2}}));
  CHECK(plot.drawn == 2);
  CHECK(plot.left_out == 5);
  CHECK(plot.svg.find("Not drawn: 5") != std::string::npos);
  for (const char* word : {"nan", "inf"}) CHECK(plot.svg.find(word) == std::string::npos);
  const RenderedPlot whole = render_plot(one_series(AxisScale::kLog, {{1, 1}, {6, 2}}));
  CHECK(whole.left_out == 0);
  CHECK(whole.svg.find("Not drawn") == std::string::npos);
}

TEST_CASE("extreme numbers give a chart") {
  for (const double value : {1e-308, 1e-300, 1e-30, 1e30, 1e300, 1.7e308}) {
    INFO(value);
    for (const AxisScale scale : {AxisScale::kLinear, AxisScale::kLog}) {
      const RenderedPlot one = render_plot(one_series(scale, {{1, value}}));
      CHECK(one.drawn == 1);
      for (const char* word : {"nan", "inf"}) CHECK(one.svg.find(word) == std::string::npos);
      CHECK(render_plot(one_series(scale, {{1, value}, {2, value * 0.5}, {3, 1}})).drawn == 3);
    }
  }
}

TEST_CASE("a line goes through its points") {
  // The vertical ends of the plot: the lowest value of the range is at the bottom, the highest at the top.
  const RenderedPlot plot = render_plot(one_series(AxisScale::kLinear, {{0, 0}, {1, 1}, {2, 0}}));
  const std::string& svg = plot.svg;
  const size_t begin = svg.find("<path class=\"line\" d=\"M", svg.find("class=\"frame\""));
  REQUIRE(begin != std::string::npos);
  double x[3], y[3];
  REQUIRE(std::sscanf(svg.c_str() + begin, "<path class=\"line\" d=\"M%lf %lfL%lf %lfL%lf %lf", &x[0], &y[0], &x[1],
                      &y[1], &x[2], &y[2]) == 6);
  CHECK(x[1] - x[0] == Approx(x[2] - x[1]).margin(0.11));
  CHECK(y[0] == y[2]);
  // 0 to 1 with 6 % room on both sides of a plot 200 high.
  CHECK(y[0] - y[1] == Approx(200 / 1.12).margin(0.11));
}

TEST_CASE("texts of a chart are escaped") {
  Plot plot = one_series(AxisScale::kLinear, {{1, 1}, {2, 2}});
  plot.title = "<script>&\"'";
  plot.description = "</desc><script>";
  plot.series[0].name = "<b>\u202Ename";
  plot.series[0].points[0].tip = "</title><img src=x>";
  plot.series[0].points[1].label = "<i>";
  plot.rules = {{"<u>", 1.5, false}};
  const RenderedPlot rendered = render_plot(plot);
  const html::Page page = html::read("<!doctype html>" + rendered.svg);
  for (const html::Element& element : page.elements)
    CHECK(std::set<std::string>{"svg", "title", "desc", "g", "path", "text", "circle"}.count(element.tag) == 1);
  CHECK(page.by_id("p-t")->text == "<script>&\"'");
  CHECK(page.by_id("p-d")->text == "</desc><script>");
}

TEST_CASE("a chart has a name and a description, and no style of its own") {
  const std::string svg = render_plot(one_series(AxisScale::kLinear, {{1, 1}})).svg;
  const html::Page page = html::read("<!doctype html>" + svg);
  CHECK(page.elements[0].attributes.at("role") == "img");
  CHECK(page.elements[0].attributes.at("aria-labelledby") == "p-t p-d");
  for (const html::Element& element : page.elements) CHECK(element.attributes.count("style") == 0);
}

TEST_CASE("bars of tables") {
  const std::string bar = interval_bar(1, 1.5, 2, {0, 2}, 1);
  // 160 wide with 5 on both sides: 0 is at 5, 1 at 80, 2 at 155.
  CHECK(bar.find("M80 1V19") != std::string::npos);
  CHECK(bar.find("M80 10H155") != std::string::npos);
  CHECK(bar.find("cx=\"117.5\"") != std::string::npos);
  CHECK(bar.find("aria-hidden=\"true\"") != std::string::npos);
  CHECK(interval_bar(kNan, 1, 2, {0, 2}, 1).empty());
  CHECK(interval_bar(1, 1, kInfinity, {0, 2}, 1).empty());
  CHECK(share_bar(0.5).find("class=\"fill\" width=\"40\"") != std::string::npos);
  CHECK(share_bar(7).find("class=\"fill\" width=\"80\"") != std::string::npos);
  CHECK(share_bar(-1).find("class=\"fill\" width=\"0\"") != std::string::npos);
  CHECK(share_bar(kNan).empty());
}

}  // namespace
}  // namespace stepbench
