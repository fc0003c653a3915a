// Charts as SVG text, without a library: axes with units, ticks, marks, intervals, a legend. Pure functions. Colours
// are CSS classes (c0 .. c5) of the page's style sheet, and no attribute here is a style, so that a strict content
// security policy and dark mode both work. Every text is escaped here.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace stepbench {

// ---------------------------------------------------------------------------------------------- geometry
enum class AxisScale : uint8_t {
  kLinear,
  kLog,   ///< positive values only; others are left out and counted
  kTime,  ///< seconds since 1970, UTC
};

struct PlotRange {
  double low = 0, high = 1;  ///< low < high; both positive on a log axis
};

struct PlotTick {
  double value = 0;
  std::string text;
};

/// A range for these values: all of them, and some room. A single value, or none, gives a range too. On a log axis the
/// ends are 1, 2 or 5 times a power of ten.
PlotRange plot_range(const std::vector<double>& values, AxisScale scale);
/// Ticks inside the range, ascending, `most` at most (2 at least): 1, 2, 5 times a power of ten, or whole units of
/// time.
std::vector<PlotTick> plot_ticks(const PlotRange& range, AxisScale scale, int most, std::string (*text)(double));
/// Where a value lies: 0 at range.low, 1 at range.high.
double plot_position(double value, const PlotRange& range, AxisScale scale);
/// Width in units of the drawing. A guess, above the truth for common sans-serif fonts.
double plot_text_width(const std::string& text, double font_size);

// ---------------------------------------------------------------------------------------------- plots
inline constexpr double kNoInterval = std::numeric_limits<double>::quiet_NaN();

struct PlotPoint {
  double x = 0, y = 0;
  double y_low = kNoInterval, y_high = kNoInterval;  ///< ends of an interval
  std::string tip{};                                 ///< shown when pointed at
  std::string label{};                               ///< beside the point where there is room
};

enum class SeriesForm : uint8_t {
  kPoints,
  kLine,   ///< marks joined by straight lines
  kSteps,  ///< marks joined by steps: each value holds until the next
  kBareLine,
  kBareSteps,  ///< the same without marks
};

struct PlotSeries {
  std::string name;
  SeriesForm form = SeriesForm::kPoints;
  int colour = 0;  ///< 0 .. 5; also chooses the shape of the marks
  std::vector<PlotPoint> points;
};

/// A line across the plot at one value, named in the legend.
struct PlotRule {
  std::string name;
  double at = 0;
  bool vertical = false;
};

struct PlotAxis {
  std::string title;  ///< with the unit
  AxisScale scale = AxisScale::kLinear;
  std::string (*text)(double) = nullptr;  ///< of a tick; unused for kTime
  std::vector<double> include{};          ///< values that the range must hold besides the points
  std::optional<double> low{}, high{};    ///< ends of the range, unless a value lies beyond
};

struct Plot {
  std::string id;  ///< unique in its page; letters, digits and "-"
  std::string title;
  std::string description;  ///< what the chart shows, in words: for those who do not see it
  PlotAxis x, y;
  std::vector<PlotSeries> series;
  std::vector<PlotRule> rules{};
};

/// A rectangle that a text takes, for tests and for placing labels.
struct PlotBox {
  double x = 0, y = 0, width = 0, height = 0;
  std::string text;
};

struct RenderedPlot {
  std::string svg;               ///< one <svg> element
  std::vector<PlotBox> texts;    ///< all texts as placed
  double width = 0, height = 0;  ///< of the drawing
  int64_t left_out = 0;          ///< points that are not finite, or not positive on a log axis
  int64_t drawn = 0;
};

RenderedPlot render_plot(const Plot& plot);

// ---------------------------------------------------------------------------------------------- small ones
/// An interval with its middle on a common range, with a line at `reference`: one row of a table. Decoration: the same
/// numbers stand beside it as text. Empty when a number is not finite.
std::string interval_bar(double low, double middle, double high, const PlotRange& range, double reference);
/// A bar for a share of 0 to 1. Empty when the number is not finite.
std::string share_bar(double share);

}  // namespace stepbench
