// Adafactor without momentum in double precision (Shazeer, Stern, "Adafactor: Adaptive Learning Rates with Sublinear
// Memory Cost", ICML 2018, algorithms 4 and 5), with the epsilons, the relative step and the order of decay of
// torch.optim.Adafactor. Every tensor is a matrix of rows x cols; a vector has one column.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tasks/oracle.h"
#include "tasks/spread.h"

namespace stepbench {

namespace {
enum Field { kStep, kLr, kBeta2Decay, kEps1, kEps2, kClip, kWeightDecay, kOneMinusBeta2, kRho, kGradScale, kFoundInf };
enum Buffer { kParam, kGrad, kRowVar, kColVar };

/// Relative error that a mean of squares may have, 1e-5, in units of the limit of both averages, 4e-7: 128 equal
/// squares added one after the other in fp32 are already up to 4e-6 off.
constexpr double kMeanRoom = 1e-5 / 4e-7;
/// What the errors of four such sums (two averages, the mean of one, two root mean squares) may do to the step, 1e-5,
/// in units of the parameter's limit of 1.6e-6.
constexpr double kStepRoom = 1e-5 / 1.6e-6;
/// A candidate may compute the weight of the new mean itself with a powf that is good to 4 ulp: 2^-21 of it, beside a
/// limit of 4e-7. At the first step the weight is exactly 1.
constexpr double kPowerRoom = 1.2;

/// Smallest normal fp32 number: a gradient below it, after it was unscaled, is uncertain by a part of this, and is then
/// divided by a root that may be as small as eps1.
constexpr double kLeastNormal = 0x1p-126;

double root_mean_square(double squares, int64_t n) { return std::sqrt(squares / static_cast<double>(n)); }

/// Weighted average of the stored value and a new mean, and its scale.
double average(double old, double mean, double weight, bool first_step, double* scale) {
  if (scale != nullptr)
    *scale =
        (1 - weight) * old + weight * mean * (1 + kMeanRoom) + (first_step ? 0 : kPowerRoom * weight * (old + mean));
  return (1 - weight) * old + weight * mean;
}

/// Part of a matrix: columns [first_col, last_col) of rows [first_row, last_row).
struct Tile {
  size_t row_part = 0, col_part = 0;
  size_t first_row = 0, last_row = 0, first_col = 0, last_col = 0;
};

/// Sums over rows are kept for every part of the columns, and those over columns for every part of the rows: there are
/// few of the latter, or a wide matrix would need as much memory for them as for itself.
constexpr size_t kMostRowParts = 64, kPartCols = kSpreadElements;

struct Tiling {
  size_t row_parts = 1, col_parts = 1;
  std::vector<Tile> tiles;

  Tiling(size_t rows, size_t cols) {
    col_parts = (cols + kPartCols - 1) / kPartCols;
    const size_t blocks = (rows * cols + kSpreadElements - 1) / static_cast<size_t>(kSpreadElements);
    row_parts = std::min({blocks, kMostRowParts, rows});
    for (size_t r = 0; r < row_parts; ++r)
      for (size_t c = 0; c < col_parts; ++c)
        tiles.push_back({r, c, rows * r / row_parts, rows * (r + 1) / row_parts, c * kPartCols,
                         std::min((c + 1) * kPartCols, cols)});
  }
};

/// Squares of the unscaled gradient in one row of a tile: added to those of the columns, and their sum.
double add_squares(const double* __restrict grad, double inverse_grad_scale, size_t cols,
                   double* __restrict col_squares) {
  constexpr size_t kPiece = 256;  // stays in the first-level cache
  std::array<double, kPiece> squares;
  double sum = 0;
  for (size_t first = 0; first < cols; first += kPiece) {
    const size_t count = std::min(kPiece, cols - first);
    for (size_t j = 0; j < count; ++j) {
      const double g = grad[first + j] * inverse_grad_scale;
      squares[j] = g * g;
      col_squares[first + j] += squares[j];
    }
    sum += sum_in_lanes(count, [&](size_t j) { return squares[j]; });
  }
  return sum;
}

/// How one row moves: by `rate` times the gradient over the root of row_share * col_var, of at least `least`.
struct Movement {
  double inverse_grad_scale, rate, decay, least;

  void row(const double* __restrict grad, double row_share, const double* __restrict col_var, size_t cols,
           double* __restrict param) const {
    for (size_t j = 0; j < cols; ++j) {
      const double per_gradient = rate / std::sqrt(std::max(row_share * col_var[j], least));
      param[j] = param[j] * (1 - decay) - grad[j] * inverse_grad_scale * per_gradient;
    }
  }
  void row_with_scale(const double* __restrict grad, double row_share, const double* __restrict col_var, size_t cols,
                      double* __restrict param, double* __restrict scale) const {
    for (size_t j = 0; j < cols; ++j) {
      const double g = grad[j] * inverse_grad_scale;
      const double per_gradient = rate / std::sqrt(std::max(row_share * col_var[j], least));
      scale[j] = (std::fabs(g) + kLeastNormal) * per_gradient * (1 + kStepRoom) + decay * std::fabs(param[j]);
      param[j] = param[j] * (1 - decay) - g * per_gradient;
    }
  }
};
}  // namespace

void oracle_adafactor(const OracleTensor& tensor, std::span<const double> hyper, int64_t, int64_t) {
  const auto rows = static_cast<size_t>(tensor.rows), cols = static_cast<size_t>(tensor.cols);
  double* const param = tensor.buffers[kParam];
  const double* const grad = tensor.buffers[kGrad];
  double* const row_var = tensor.buffers[kRowVar];
  double* const col_var = tensor.buffers[kColVar];
  double* const param_scale = tensor.scale[kParam];
  double* const row_scale = tensor.scale[kRowVar];
  double* const col_scale = tensor.scale[kColVar];
  if (hyper[kFoundInf] != 0) {  // nothing moves
    if (param_scale != nullptr) std::fill_n(param_scale, tensor.n, 0.0);
    if (row_scale != nullptr) std::fill_n(row_scale, tensor.rows, 0.0);
    if (col_scale != nullptr) std::fill_n(col_scale, tensor.cols, 0.0);
    return;
  }

  const double step = hyper[kStep], lr = hyper[kLr], eps1 = hyper[kEps1];
  const bool first_step = step == 1;
  // Derived again, not taken from hyper[]: those are rounded to fp32 for the candidate's convenience.
  const double weight = std::pow(step, hyper[kBeta2Decay]);
  const double rho = std::min(lr, 1 / std::sqrt(step));

  const double inverse_grad_scale = 1 / hyper[kGradScale];
  const Tiling tiling(rows, cols);
  const std::vector<Tile>& tiles = tiling.tiles;
  const auto over_tiles = [&](const auto& work) {
    spread(tensor.threads, tiles.size(), [&](size_t t) { work(t, tiles[t]); });
  };
  const auto sum_of = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  };

  // Squares by rows for every part of the columns, and the other way round; and of the parameters in every tile.
  std::vector<double> row_squares(tiling.col_parts * rows), col_squares(tiling.row_parts * cols);
  std::vector<double> tile_squares(tiles.size());
  over_tiles([&](size_t t, const Tile& tile) {
    const size_t width = tile.last_col - tile.first_col;
    double squares = 0;
    for (size_t i = tile.first_row; i < tile.last_row; ++i) {
      const size_t at = i * cols + tile.first_col;
      row_squares[tile.col_part * rows + i] =
          add_squares(grad + at, inverse_grad_scale, width, &col_squares[tile.row_part * cols + tile.first_col]);
      squares += sum_in_lanes(width, [&](size_t j) { return param[at + j] * param[at + j]; });
    }
    tile_squares[t] = squares;
  });
  const double param_squares = sum_of(tile_squares);

  double sum_of_rows = 0;
  for (size_t i = 0; i < rows; ++i) {
    double squares = 0;
    for (size_t part = 0; part < tiling.col_parts; ++part) squares += row_squares[part * rows + i];
    double* const scale = row_scale == nullptr ? nullptr : row_scale + i;
    row_var[i] = average(row_var[i], squares / static_cast<double>(cols), weight, first_step, scale);
    sum_of_rows += row_var[i];
  }
  spread_blocks(tensor.threads, 0, tensor.cols, [&](int64_t begin, int64_t end) {
    for (auto j = static_cast<size_t>(begin); j < static_cast<size_t>(end); ++j) {
      double squares = 0;
      for (size_t part = 0; part < tiling.row_parts; ++part) squares += col_squares[part * cols + j];
      double* const scale = col_scale == nullptr ? nullptr : col_scale + j;
      col_var[j] = average(col_var[j], squares / static_cast<double>(rows), weight, first_step, scale);
    }
  });

  const double inverse_mean_of_rows = 1 / std::max(sum_of_rows / static_cast<double>(rows), eps1);
  const double least = eps1 * eps1;  // of what the gradient is divided by the root of
  over_tiles([&](size_t t, const Tile& tile) {
    double squares = 0;
    for (size_t i = tile.first_row; i < tile.last_row; ++i) {
      const double row_share = row_var[i] * inverse_mean_of_rows;
      const double* const row = grad + i * cols;
      squares += sum_in_lanes(tile.last_col - tile.first_col, [&](size_t j) {
        const double g = row[tile.first_col + j] * inverse_grad_scale;
        return g * g / std::max(row_share * col_var[tile.first_col + j], least);
      });
    }
    tile_squares[t] = squares;
  });
  const double update_squares = sum_of(tile_squares);

  const double alpha = std::max(hyper[kEps2], root_mean_square(param_squares, tensor.n)) * rho;
  const double rate = alpha / std::max(1.0, root_mean_square(update_squares, tensor.n) / hyper[kClip]);
  const Movement movement{inverse_grad_scale, rate, lr * hyper[kWeightDecay], least};
  over_tiles([&](size_t, const Tile& tile) {
    const size_t width = tile.last_col - tile.first_col;
    for (size_t i = tile.first_row; i < tile.last_row; ++i) {
      const size_t at = i * cols + tile.first_col;
      const double row_share = row_var[i] * inverse_mean_of_rows;
      if (param_scale != nullptr)
        movement.row_with_scale(grad + at, row_share, col_var + tile.first_col, width, param + at, param_scale + at);
      else
        movement.row(grad + at, row_share, col_var + tile.first_col, width, param + at);
    }
  });
}

}  // namespace stepbench
