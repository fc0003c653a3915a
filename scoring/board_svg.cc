// See board_svg.h. The drawing is 400 units wide: its text is readable on a telephone and where three stand side by
// side.
#include "scoring/board_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "harness/result.h"
#include "scoring/board_text.h"
#include "scoring/board_units.h"

namespace stepbench {
namespace {

constexpr double kWidth = 400, kPlotHeight = 200;
constexpr double kFont = 13;
constexpr double kLine = 18;  // height of a line of text
constexpr int kColours = 6;

/// With one decimal, without ".0": coordinates.
std::string at(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

// ---------------------------------------------------------------------------------------------- ticks

/// 1, 2 or 5 times a power of ten, `value` or more.
double step_at_least(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::vector<double> linear_ticks(const PlotRange& range, int most) {
  const double span = range.high - range.low;
  double step = step_at_least(span / most);
  std::vector<double> ticks;
  while (true) {
    ticks.clear();
    const double first = std::ceil(range.low / step - 1e-9);
    for (double i = first; i * step <= range.high + 1e-9 * span; ++i) ticks.push_back(i == 0 ? 0 : i * step);
    if (static_cast<int>(ticks.size()) <= most) return ticks;
    step = step_at_least(step * 1.01);
  }
}

std::vector<double> log_ticks(const PlotRange& range, int most) {
  const auto powers = [&](int stride, std::initializer_list<double> factors) {
    std::vector<double> ticks;
    const int first = static_cast<int>(std::floor(std::log10(range.low) - 1e-9)) - 1;
    const int last = static_cast<int>(std::ceil(std::log10(range.high) + 1e-9)) + 1;
    for (int exponent = first; exponent <= last; ++exponent) {
      if (exponent % stride != 0) continue;
      for (const double factor : factors) {
        const double value = factor * std::pow(10, exponent);
        if (value >= range.low * (1 - 1e-9) && value <= range.high * (1 + 1e-9)) ticks.push_back(value);
      }
    }
    return ticks;
  };
  const auto fits = [&](const std::vector<double>& ticks) { return static_cast<int>(ticks.size()) <= most; };
  const double decades = std::log10(range.high / range.low);
  if (decades <= 3)
    if (std::vector<double> ticks = powers(1, {1, 2, 5}); fits(ticks) && ticks.size() >= 2) return ticks;
  for (const int stride : {1, 2, 3, 4, 6, 10, 20, 50, 100})
    if (std::vector<double> ticks = powers(stride, {1}); fits(ticks) && ticks.size() >= 2) return ticks;
  return linear_ticks(range, most);  // less than two decades, or only room for two labels
}

/// Whole seconds to years; months and years by the calendar.
std::vector<double> time_ticks(const PlotRange& range, int most) {
  constexpr double kSteps[] = {1,    2,    5,      10,     30,     60,     120,     300,     600,    1800,
                               3600, 7200, 10'800, 21'600, 43'200, 86'400, 172'800, 432'000, 864'000};
  for (const double step : kSteps) {
    std::vector<double> ticks;
    if ((range.high - range.low) / step > most + 1) continue;
    for (double i = std::ceil(range.low / step); i * step <= range.high; ++i) ticks.push_back(i * step);
    if (static_cast<int>(ticks.size()) <= most) return ticks;
  }
  using namespace std::chrono;
  for (const int months : {1, 2, 3, 6, 12, 24, 60, 120, 600, 1200, 12000}) {
    std::vector<double> ticks;
    const year_month_day start{sys_days{days{static_cast<int>(std::floor(range.low / 86'400))}}};
    int month = static_cast<int>(start.year()) * 12;  // of January
    for (; static_cast<int>(ticks.size()) <= most; month += months) {
      const sys_days day = sys_days(year(month / 12) / (month % 12 + 1) / 1);
      const double value = static_cast<double>(day.time_since_epoch().count()) * 86'400.0;
      if (value > range.high) return ticks;
      if (value >= range.low) ticks.push_back(value);
    }
  }
  return {};
}

/// Day and, where ticks are closer than days, the time.
std::string time_tick_text(double value, double span_s) {
  const std::string utc = utc_of_seconds(value);
  if (span_s > 2 * 86'400) return utc.substr(0, 10);
  if (span_s > 600) return utc.substr(5, 5) + " " + utc.substr(11, 5);
  return utc.substr(11, 8);
}

// ---------------------------------------------------------------------------------------------- drawing

/// The same order as the colours. All are about as large as a circle of radius 4.
std::string mark_at(double x, double y, int colour) {
  switch (colour % kColours) {
    case 0: return fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"4\"/>", at(x), at(y));
    case 1: return fmt::format("<rect x=\"{}\" y=\"{}\" width=\"7\" height=\"7\"/>", at(x - 3.5), at(y - 3.5));
    case 2: return fmt::format("<path d=\"M{} {}l4.6 8h-9.2z\"/>", at(x), at(y - 5));
    case 3: return fmt::format("<path d=\"M{} {}l5 5l-5 5l-5-5z\"/>", at(x), at(y - 5));
    case 4: return fmt::format("<path d=\"M{} {}l4.6-8h-9.2z\"/>", at(x), at(y + 5));
    default:
      return fmt::format("<path d=\"M{} {}h2.4v3.3h3.3v2.4h-3.3v3.3h-2.4v-3.3h-3.3v-2.4h3.3z\"/>", at(x - 1.2),
                         at(y - 4.5));
  }
}

bool overlap(const PlotBox& a, const PlotBox& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/// Everything that is known before anything is drawn.
struct Frame {
  PlotRange x_range, y_range;
  std::vector<PlotTick> x_ticks, y_ticks;
  double left = 0, right = kWidth, top = 0, bottom = 0;  // of the plot's area
  AxisScale x_scale = AxisScale::kLinear, y_scale = AxisScale::kLinear;

  double x_at(double value) const { return left + plot_position(value, x_range, x_scale) * (right - left); }
  double y_at(double value) const { return bottom - plot_position(value, y_range, y_scale) * (bottom - top); }
};

bool can_show(double value, AxisScale scale) { return std::isfinite(value) && (scale != AxisScale::kLog || value > 0); }

bool can_show(const PlotPoint& point, const Plot& plot) {
  return can_show(point.x, plot.x.scale) && can_show(point.y, plot.y.scale);
}

bool has_interval(const PlotPoint& point, const Plot& plot) {
  return can_show(point.y_low, plot.y.scale) && can_show(point.y_high, plot.y.scale);
}

PlotRange range_of(std::vector<double> values, const PlotAxis& axis) {
  for (const std::optional<double>& end : {axis.low, axis.high})
    if (end) values.push_back(*end);
  PlotRange range = plot_range(values, axis.scale);
  std::erase_if(values, [&](double value) { return !can_show(value, axis.scale); });
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (axis.low && *least == *axis.low) range.low = *axis.low;
  if (axis.high && *most == *axis.high) range.high = *axis.high;
  return range;
}

/// Cut until it takes this width or less.
std::string shortened_to(const std::string& text, double width) {
  std::string cut = shortened(text, 60);
  for (size_t limit = 59; limit > 1 && plot_text_width(cut, kFont) > width; --limit) cut = shortened(text, limit);
  return cut;
}

bool has_marks(const PlotSeries& series) {
  return series.form != SeriesForm::kBareLine && series.form != SeriesForm::kBareSteps;
}

bool is_stepped(const PlotSeries& series) {
  return series.form == SeriesForm::kSteps || series.form == SeriesForm::kBareSteps;
}

class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot) {
    for (const PlotRule& rule : plot.rules)
      if (can_show(rule.at, rule.vertical ? plot.x.scale : plot.y.scale)) rules_.push_back(rule);
  }

  RenderedPlot draw() {
    place();
    draw_axes();
    for (size_t i = 0; i < rules_.size(); ++i) draw_rule(rules_[i], i);
    for (const PlotSeries& series : plot_.series) draw_series(series);
    draw_labels();
    result_.width = kWidth;
    result_.height = frame_.bottom + 2 * kLine + 8;
    result_.svg = fmt::format(
        "<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-t {}-d\">\n"
        "<title id=\"{}-t\">{}</title>\n<desc id=\"{}-d\">{}</desc>\n{}</svg>\n",
        at(result_.width), at(result_.height), plot_.id, plot_.id, plot_.id, html_text(plot_.title), plot_.id,
        html_text(description()), body_);
    return std::move(result_);
  }

 private:
  std::string description() const {
    if (result_.left_out == 0) return plot_.description;
    return fmt::format("{} Not drawn: {} that the scale cannot show (not finite, or not positive).", plot_.description,
                       result_.left_out);
  }

  void place() {
    std::vector<double> xs = plot_.x.include, ys = plot_.y.include;
    for (const PlotSeries& series : plot_.series) {
      for (const PlotPoint& point : series.points) {
        if (!can_show(point, plot_)) {
          ++result_.left_out;
          continue;
        }
        ++result_.drawn;
        xs.push_back(point.x);
        ys.push_back(point.y);
        if (!has_interval(point, plot_)) continue;
        ys.push_back(point.y_low);
        ys.push_back(point.y_high);
      }
    }
    for (const PlotRule& rule : rules_) (rule.vertical ? xs : ys).push_back(rule.at);
    frame_.x_scale = plot_.x.scale;
    frame_.y_scale = plot_.y.scale;
    frame_.x_range = range_of(xs, plot_.x);
    frame_.y_range = range_of(ys, plot_.y);

    place_legend();
    frame_.bottom = frame_.top + kPlotHeight;
    frame_.y_ticks = plot_ticks(frame_.y_range, plot_.y.scale, 7, plot_.y.text);
    double widest = 0;
    for (const PlotTick& tick : frame_.y_ticks) widest = std::max(widest, plot_text_width(tick.text, kFont));
    frame_.left = widest + 14;
    place_x_ticks();
  }

  /// As many as fit beside each other, each below its place and inside of the drawing.
  void place_x_ticks() {
    for (int most = 8; most >= 2; --most) {
      frame_.x_ticks = plot_ticks(frame_.x_range, plot_.x.scale, most, plot_.x.text);
      frame_.right = kWidth - 8;
      if (!frame_.x_ticks.empty()) {
        const PlotTick& last = frame_.x_ticks.back();
        const double beyond = frame_.x_at(last.value) + plot_text_width(last.text, kFont) / 2 - (kWidth - 2);
        if (beyond > 0) frame_.right -= beyond;
      }
      double end = -1e9;
      bool fits = true;
      for (const PlotTick& tick : frame_.x_ticks) {
        const double half = plot_text_width(tick.text, kFont) / 2;
        if (frame_.x_at(tick.value) - half < end + 8) fits = false;
        end = frame_.x_at(tick.value) + half;
      }
      if (fits) return;
    }
    if (!frame_.x_ticks.empty()) frame_.x_ticks.resize(1);
  }

  /// Title of the y axis in the first line, then the names in lines as wide as the drawing.
  void place_legend() {
    write(0, 14, plot_.y.title, "axis", "start");
    double x = 0, y = 14 + kLine;
    const auto entry = [&](const std::string& name, const std::string& sample) {
      const std::string text = shortened_to(name, kWidth - 22);
      const double width = 22 + plot_text_width(text, kFont) + 16;
      if (x > 0 && x + width - 16 > kWidth) {
        x = 0;
        y += kLine;
      }
      body_ += fmt::format("<g transform=\"translate({} {})\">{}</g>\n", at(x), at(y - 4.5), sample);
      write(x + 22, y, text, "", "start");
      x += width;
    };
    for (const PlotSeries& series : plot_.series) {
      const std::string line = series.form == SeriesForm::kPoints ? "" : "<path class=\"line\" d=\"M0 0h18\"/>";
      const std::string mark = has_marks(series) ? mark_at(9, 0, series.colour) : "";
      entry(series.name, fmt::format("<g class=\"c{}\">{}{}</g>", series.colour % kColours, line, mark));
    }
    for (size_t i = 0; i < rules_.size(); ++i)
      entry(rules_[i].name, fmt::format("<path class=\"rule r{}\" d=\"M0 0h18\"/>", i % 3));
    frame_.top = y + 16;
  }

  /// `y` is the base line.
  void write(double x, double y, const std::string& text, const char* css, const char* anchor) {
    const double width = plot_text_width(text, kFont);
    const double left = *anchor == 'm' ? x - width / 2 : *anchor == 'e' ? x - width : x;
    result_.texts.push_back({left, y - kFont * 0.8, width, kFont, text});
    body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", at(x), at(y),
                         *css ? fmt::format(" class=\"{}\"", css) : "",
                         *anchor == 's' ? "" : fmt::format(" text-anchor=\"{}\"", anchor), html_text(text));
  }

  void draw_axes() {
    std::string grid;
    for (const PlotTick& tick : frame_.y_ticks)
      grid += fmt::format("M{} {}H{}", at(frame_.left), at(frame_.y_at(tick.value)), at(frame_.right));
    for (const PlotTick& tick : frame_.x_ticks)
      grid += fmt::format("M{} {}V{}", at(frame_.x_at(tick.value)), at(frame_.top), at(frame_.bottom));
    if (!grid.empty()) body_ += fmt::format("<path class=\"grid\" d=\"{}\"/>\n", grid);
    body_ += fmt::format("<path class=\"frame\" d=\"M{} {}V{}H{}\"/>\n", at(frame_.left), at(frame_.top),
                         at(frame_.bottom), at(frame_.right));
    for (const PlotTick& tick : frame_.y_ticks)
      write(frame_.left - 6, frame_.y_at(tick.value) + 4.5, tick.text, "", "end");
    for (const PlotTick& tick : frame_.x_ticks)
      write(frame_.x_at(tick.value), frame_.bottom + kLine, tick.text, "", "middle");
    write((frame_.left + frame_.right) / 2, frame_.bottom + 2 * kLine + 2, plot_.x.title, "axis", "middle");
  }

  void draw_rule(const PlotRule& rule, size_t index) {
    const std::string path =
        rule.vertical ? fmt::format("M{} {}V{}", at(frame_.x_at(rule.at)), at(frame_.top), at(frame_.bottom))
                      : fmt::format("M{} {}H{}", at(frame_.left), at(frame_.y_at(rule.at)), at(frame_.right));
    body_ += fmt::format("<path class=\"rule r{}\" d=\"{}\"/>\n", index % 3, path);
  }

  void draw_series(const PlotSeries& series) {
    std::vector<const PlotPoint*> points;
    for (const PlotPoint& point : series.points)
      if (can_show(point, plot_)) points.push_back(&point);
    if (points.empty()) return;
    body_ += fmt::format("<g class=\"c{}\">\n", series.colour % kColours);
    if (series.form != SeriesForm::kPoints && points.size() > 1) {
      std::string path;
      for (const PlotPoint* point : points) {
        const std::string x = at(frame_.x_at(point->x)), y = at(frame_.y_at(point->y));
        if (path.empty()) {
          path = fmt::format("M{} {}", x, y);
        } else {
          path += is_stepped(series) ? fmt::format("H{}V{}", x, y) : fmt::format("L{} {}", x, y);
        }
      }
      body_ += fmt::format("<path class=\"line\" d=\"{}\"/>\n", path);
    }
    for (const PlotPoint* point : points) {
      if (!has_marks(series)) break;
      const double x = frame_.x_at(point->x), y = frame_.y_at(point->y);
      body_ += "<g>";
      if (!point->tip.empty()) body_ += fmt::format("<title>{}</title>", html_text(point->tip));
      if (has_interval(*point, plot_)) {
        const double low = frame_.y_at(point->y_low), high = frame_.y_at(point->y_high);
        body_ += fmt::format("<path class=\"line\" d=\"M{} {}V{}M{} {}h6M{} {}h6\"/>", at(x), at(low), at(high),
                             at(x - 3), at(low), at(x - 3), at(high));
      }
      body_ += mark_at(x, y, series.colour) + "</g>\n";
      taken_.push_back({x - 5, y - 5, 10, 10, ""});
    }
    body_ += "</g>\n";
  }

  /// Beside, above or below its point, where nothing else stands; otherwise not at all.
  void draw_labels() {
    for (const PlotSeries& series : plot_.series) {
      for (const PlotPoint& point : series.points) {
        if (point.label.empty() || !can_show(point, plot_)) continue;
        const std::string text = shortened(point.label, 24);
        const double width = plot_text_width(text, kFont), x = frame_.x_at(point.x), y = frame_.y_at(point.y);
        const PlotBox places[] = {{x + 7, y - kFont / 2, width, kFont, text},
                                  {x - 7 - width, y - kFont / 2, width, kFont, text},
                                  {x - width / 2, y - 7 - kFont, width, kFont, text},
                                  {x - width / 2, y + 7, width, kFont, text}};
        for (const PlotBox& place : places) {
          if (place.x < frame_.left + 2 || place.x + width > frame_.right || place.y < frame_.top ||
              place.y + kFont > frame_.bottom)
            continue;
          const auto hits = [&](const PlotBox& box) { return overlap(place, box); };
          if (std::any_of(taken_.begin(), taken_.end(), hits)) continue;
          taken_.push_back(place);
          write(place.x, place.y + kFont * 0.8, text, "label", "start");
          break;
        }
      }
    }
  }

  const Plot& plot_;
  std::vector<PlotRule> rules_;  // those that the axes can show
  Frame frame_;
  RenderedPlot result_;
  std::string body_;
  std::vector<PlotBox> taken_;  // marks and labels
};

}  // namespace

PlotRange plot_range(const std::vector<double>& values, AxisScale scale) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!can_show(value, scale)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high)
    return scale == AxisScale::kLog ? PlotRange{0.1, 10} : PlotRange{0, scale == AxisScale::kTime ? 86'400.0 : 1};
  if (scale == AxisScale::kLog) {
    low = std::clamp(low, 1e-300, 1e300);
    high = std::clamp(high, 1e-300, 1e300);
    const double top = step_at_least(high * 1.05);
    const double bottom = 1 / step_at_least(1.05 / low);  // the reciprocals of 1, 2, 5 are 1, 5, 2 of the power below
    return {bottom, top};
  }
  // Beyond this the sums below overflow or lose the difference of the ends.
  low = std::clamp(low, -1e300, 1e300);
  high = std::clamp(high, -1e300, 1e300);
  const double least = scale == AxisScale::kTime ? 3600 : std::max(std::fabs(low), std::fabs(high)) * 1e-3;
  double room = (high - low) * 0.06;
  if (high - low < least) room = least / 2;
  if (room == 0) room = 0.5;
  return {low - room, high + room};
}

std::vector<PlotTick> plot_ticks(const PlotRange& range, AxisScale scale, int most, std::string (*text)(double)) {
  SB_ASSERT(range.low < range.high && most >= 2);
  const std::vector<double> values = scale == AxisScale::kLog    ? log_ticks(range, most)
                                     : scale == AxisScale::kTime ? time_ticks(range, most)
                                                                 : linear_ticks(range, most);
  std::vector<PlotTick> ticks;
  for (const double value : values)
    ticks.push_back({value, scale == AxisScale::kTime ? time_tick_text(value, range.high - range.low)
                            : text                    ? text(value)
                                                      : number_text(value)});
  return ticks;
}

double plot_position(double value, const PlotRange& range, AxisScale scale) {
  if (scale == AxisScale::kLog) return std::log(value / range.low) / std::log(range.high / range.low);
  return (value - range.low) / (range.high - range.low);
}

double plot_text_width(const std::string& text, double font_size) {
  double em = 0;
  for (const char32_t c : code_points(visible_text(text)))
    em += c < 0x80 ? (c == ' ' || c == '.' || c == ',' ? 0.36 : 0.62) : c < 0x2E80 ? 0.7 : 1.1;
  return em * font_size;
}

RenderedPlot render_plot(const Plot& plot) { return Drawing(plot).draw(); }

std::string interval_bar(double low, double middle, double high, const PlotRange& range, double reference) {
  if (!std::isfinite(low) || !std::isfinite(middle) || !std::isfinite(high)) return "";
  constexpr double kBarWidth = 160, kMargin = 5;
  const auto x = [&](double value) {
    return kMargin + std::clamp(plot_position(value, range, AxisScale::kLinear), 0.0, 1.0) * (kBarWidth - 2 * kMargin);
  };
  return fmt::format(
      "<svg class=\"bar\" viewBox=\"0 0 160 20\" width=\"160\" height=\"20\" aria-hidden=\"true\" focusable=\"false\">"
      "<path class=\"rule r0\" d=\"M{} 1V19\"/><g class=\"c0\"><path class=\"line\" "
      "d=\"M{} 10H{}M{} 5V15M{} 5V15\"/><circle cx=\"{}\" cy=\"10\" r=\"3\"/></g></svg>",
      at(x(reference)), at(x(low)), at(x(high)), at(x(low)), at(x(high)), at(x(middle)));
}

std::string share_bar(double share) {
  if (!std::isfinite(share)) return "";
  return fmt::format(
      "<svg class=\"bar\" viewBox=\"0 0 80 12\" width=\"80\" height=\"12\" aria-hidden=\"true\" focusable=\"false\">"
      "<rect class=\"track\" width=\"80\" height=\"12\" rx=\"2\"/><rect class=\"fill\" width=\"{}\" height=\"12\" "
      "rx=\"2\"/></svg>",
      at(80 * std::clamp(share, 0.0, 1.0)));
}

}  // namespace stepbench
