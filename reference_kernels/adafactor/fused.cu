/*stepbench
{ "task": "adafactor",
  "note": "six launches for the list: where tiles lie, tile sums, averages, squares of the update, step sizes, step",
  "defines": {"BLOCK": 256, "ROWS": 64},
  "tunables": {"ROWS": [32, 64, 128]},
  "scratch": {
    "places": "48 * tensors",
    "row_sums": "4 * sum(rows * ceil_div(cols, 128)) + 4",
    "col_sums": "4 * sum(cols * ceil_div(rows, ROWS * max(1, 32 / max(cols, 1)))) + 4",
    "squares": "8 * sum(ceil_div(cols, 128) * ceil_div(rows, ROWS * max(1, 32 / max(cols, 1)))) + 8",
    "row_means": "4 * sum(ceil_div(rows, BLOCK)) + 4",
    "rates": "8 * tensors"},
  "launches": [
    {"for": "step", "kernel": "lay_out", "grid": "1", "block": "1024",
     "args": ["rows[]", "cols[]", "tensors", "scratch.places"]},
    {"for": "step", "kernel": "tile_sums",
     "grid": "sum(ceil_div(cols, 128) * ceil_div(rows, ROWS * max(1, 32 / max(cols, 1))))", "block": "BLOCK",
     "args": ["param[]", "grad[]", "rows[]", "cols[]", "tensors", "hyper", "scratch.places", "scratch.row_sums",
              "scratch.col_sums", "scratch.squares"]},
    {"for": "step", "kernel": "averages", "grid": "sum(ceil_div(rows, BLOCK) + ceil_div(cols, 32))",
     "block": "BLOCK",
     "args": ["row_var[]", "col_var[]", "rows[]", "cols[]", "tensors", "hyper", "scratch.places", "scratch.row_sums",
              "scratch.col_sums", "scratch.row_means"]},
    {"for": "step", "kernel": "update_squares",
     "grid": "sum(ceil_div(cols, 128) * ceil_div(rows, ROWS * max(1, 32 / max(cols, 1))))", "block": "BLOCK",
     "args": ["grad[]", "row_var[]", "col_var[]", "rows[]", "cols[]", "tensors", "hyper", "scratch.places",
              "scratch.row_means", "scratch.squares"]},
    {"for": "step", "kernel": "step_sizes", "grid": "tensors", "block": "BLOCK",
     "args": ["rows[]", "cols[]", "hyper", "scratch.places", "scratch.row_means", "scratch.squares",
              "scratch.rates"]},
    {"for": "step", "kernel": "step",
     "grid": "sum(ceil_div(cols, 128) * ceil_div(rows, ROWS * max(1, 32 / max(cols, 1))))", "block": "BLOCK",
     "args": ["param[]", "grad[]", "row_var[]", "col_var[]", "rows[]", "cols[]", "tensors", "hyper",
              "scratch.places", "scratch.rates"]}
  ] }
*/
#include <stepbench.cuh>

constexpr int kWarps = BLOCK / 32;

// A tile is 128 columns wide. Where a matrix has 32 columns or fewer, as a vector has, a row takes fewer lanes and a
// tile so many more rows.
__device__ __forceinline__ long long tile_rows(long long cols) { return ROWS * (cols < 32 ? 32 / cols : 1); }

// Numbers of what comes before a tensor in the list.
struct Place {
  long long tiles, row_sums, col_sums, average_blocks, row_means, unused;
};

__device__ __forceinline__ long long ceil_div(long long a, long long b) { return (a + b - 1) / b; }

__device__ __forceinline__ Place extent_of(long long rows, long long cols) {
  if (cols == 0) return {0, 0, 0, ceil_div(rows, BLOCK), ceil_div(rows, BLOCK), 0};
  const long long down = ceil_div(rows, tile_rows(cols)), across = ceil_div(cols, 128);
  const long long row_blocks = ceil_div(rows, BLOCK);
  return {down * across, rows * across, cols * down, row_blocks + ceil_div(cols, 32), row_blocks, 0};
}

__device__ __forceinline__ Place operator+(const Place& a, const Place& b) {
  return {a.tiles + b.tiles,         a.row_sums + b.row_sums,
          a.col_sums + b.col_sums,   a.average_blocks + b.average_blocks,
          a.row_means + b.row_means, 0};
}

__device__ __forceinline__ Place operator-(const Place& a, const Place& b) {
  return {a.tiles - b.tiles,         a.row_sums - b.row_sums,
          a.col_sums - b.col_sums,   a.average_blocks - b.average_blocks,
          a.row_means - b.row_means, 0};
}

// Exclusive sums over the list: every thread adds up a run of tensors, then all scan the runs.
extern "C" __global__ void lay_out(const long long* __restrict__ rows, const long long* __restrict__ cols,
                                   long long tensors, Place* __restrict__ places) {
  __shared__ Place runs[1024];
  const long long length = ceil_div(tensors, 1024);
  const long long first = threadIdx.x * length;
  const long long end = first + length < tensors ? first + length : tensors;
  Place sum = {};
  for (long long t = first; t < end; ++t) sum = sum + extent_of(rows[t], cols[t]);
  const Place own = sum;
  runs[threadIdx.x] = sum;
  __syncthreads();
  for (int distance = 1; distance < 1024; distance *= 2) {
    if (threadIdx.x >= distance) sum = sum + runs[threadIdx.x - distance];
    __syncthreads();
    runs[threadIdx.x] = sum;
    __syncthreads();
  }
  sum = sum - own;
  for (long long t = first; t < end; ++t) {
    places[t] = sum;
    sum = sum + extent_of(rows[t], cols[t]);
  }
}

// The last tensor whose first number is at most `at`; tensors without any start where the next one does.
template <class First>
__device__ __forceinline__ long long tensor_of(long long tensors, long long at, First first) {
  long long low = 0, high = tensors;
  while (high - low > 1) {
    const long long middle = (low + high) / 2;
    if (first(middle) <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// The sums over the threads of a block, in all of them; always in the same order.
__device__ __forceinline__ float block_sum(float value) {
  __shared__ float warps[kWarps];
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  __syncthreads();  // the sums of the call before have been read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < kWarps ? warps[threadIdx.x % 32] : 0.0f;
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}

// A block's tile and what this thread has of it: `width` columns from `col`, in every step-th row from `row` on.
struct Tile {
  long long tensor, rows, cols, down, across, row, end, col;
  int width, step, group;  // group: lanes of a row
  bool vectors;            // rows start at 16-byte boundaries
};

__device__ __forceinline__ Tile tile_of(const Place* __restrict__ places, const long long* __restrict__ rows,
                                        const long long* __restrict__ cols, long long tensors) {
  Tile tile;
  tile.tensor = tensor_of(tensors, blockIdx.x, [&](long long t) { return places[t].tiles; });
  tile.rows = rows[tile.tensor];
  tile.cols = cols[tile.tensor];
  const long long number = blockIdx.x - places[tile.tensor].tiles, across = ceil_div(tile.cols, 128);
  tile.down = number / across;
  tile.across = number % across;
  const long long height = tile_rows(tile.cols), first = tile.down * height;
  tile.end = first + height < tile.rows ? first + height : tile.rows;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (tile.cols > 32) {
    tile.group = 32;
    tile.col = tile.across * 128 + 4 * lane;
    tile.width = tile.col + 4 <= tile.cols ? 4 : tile.col < tile.cols ? (int)(tile.cols - tile.col) : 0;
    tile.row = first + warp;
    tile.step = kWarps;
  } else {
    tile.group = tile.cols <= 1 ? 1 : 1 << (32 - __clz((int)tile.cols - 1));
    tile.col = lane % tile.group;
    tile.width = tile.col < tile.cols ? 1 : 0;
    tile.row = first + (warp * 32 + lane) / tile.group;
    tile.step = BLOCK / tile.group;
  }
  tile.vectors = tile.cols % 4 == 0;
  return tile;
}

__device__ __forceinline__ bool aligned16(const void* a) { return (reinterpret_cast<unsigned long long>(a) & 15) == 0; }

// Up to four neighbours; zero beyond the width.
__device__ __forceinline__ float4 load(const float* __restrict__ from, int width, bool vector) {
  if (vector && width == 4) return *reinterpret_cast<const float4*>(from);
  float4 value = {0.0f, 0.0f, 0.0f, 0.0f};
  if (width > 0) value.x = from[0];
  if (width > 1) value.y = from[1];
  if (width > 2) value.z = from[2];
  if (width > 3) value.w = from[3];
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    tile_sums(const float* const* __restrict__ param, const float* const* __restrict__ grad,
              const long long* __restrict__ rows, const long long* __restrict__ cols, long long tensors,
              const Hyper* __restrict__ hyper, const Place* __restrict__ places, float* __restrict__ row_sums,
              float* __restrict__ col_sums, float2* __restrict__ squares) {
  if (hyper->found_inf != 0) return;
  const float inverse_scale = 1.0f / hyper->grad_scale;
  const Tile tile = tile_of(places, rows, cols, tensors);
  const Place place = places[tile.tensor];
  const float* const p = param[tile.tensor];
  const float* const g = grad[tile.tensor];
  const bool p_vectors = tile.vectors && aligned16(p), g_vectors = tile.vectors && aligned16(g);
  const long long across = ceil_div(tile.cols, 128);
  float4 col = {0.0f, 0.0f, 0.0f, 0.0f};
  float param_sum = 0.0f;
  // All lanes of a warp take the same number of turns: they add up rows together.
  const int turns = (int)ceil_div(tile_rows(tile.cols), tile.step);
#pragma unroll 4
  for (int turn = 0; turn < turns; ++turn) {
    const long long row = tile.row + (long long)turn * tile.step;
    float sum = 0.0f;
    if (row < tile.end) {
      const long long at = row * tile.cols + tile.col;
      float4 gg = load(g + at, tile.width, g_vectors);
      const float4 pp = load(p + at, tile.width, p_vectors);
      gg = {gg.x * inverse_scale, gg.y * inverse_scale, gg.z * inverse_scale, gg.w * inverse_scale};
      gg = {gg.x * gg.x, gg.y * gg.y, gg.z * gg.z, gg.w * gg.w};
      col = {col.x + gg.x, col.y + gg.y, col.z + gg.z, col.w + gg.w};
      sum = (gg.x + gg.y) + (gg.z + gg.w);
      param_sum += (pp.x * pp.x + pp.y * pp.y) + (pp.z * pp.z + pp.w * pp.w);
    }
    for (int lanes = tile.group / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (row < tile.end && threadIdx.x % tile.group == 0) row_sums[place.row_sums + row * across + tile.across] = sum;
  }
  __shared__ float4 columns[BLOCK];
  columns[threadIdx.x] = col;
  __syncthreads();
  const long long to = place.col_sums + tile.down * tile.cols;
  if (tile.cols > 32) {
    // Column c of the tile is component c % 4 of lane c / 4.
    if (threadIdx.x < 128 && tile.across * 128 + threadIdx.x < tile.cols) {
      float sum = 0.0f;
      for (int warp = 0; warp < kWarps; ++warp) sum += reinterpret_cast<const float*>(columns + 32 * warp)[threadIdx.x];
      col_sums[to + tile.across * 128 + threadIdx.x] = sum;
    }
  } else {
    for (int half = BLOCK / 2; half >= tile.group; half /= 2) {
      if (threadIdx.x < half) columns[threadIdx.x].x += columns[threadIdx.x + half].x;
      __syncthreads();
    }
    if (threadIdx.x < tile.cols) col_sums[to + threadIdx.x] = columns[threadIdx.x].x;
  }
  param_sum = block_sum(param_sum);
  if (threadIdx.x == 0) squares[blockIdx.x].x = param_sum;
}

// Blocks of a tensor: first those of its rows, one thread each, then those of its columns, 32 each.
extern "C" __global__ void __launch_bounds__(BLOCK)
    averages(float* const* __restrict__ row_var, float* const* __restrict__ col_var, const long long* __restrict__ rows,
             const long long* __restrict__ cols, long long tensors, const Hyper* __restrict__ hyper,
             const Place* __restrict__ places, const float* __restrict__ row_sums, const float* __restrict__ col_sums,
             float* __restrict__ row_means) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const long long t = tensor_of(tensors, blockIdx.x, [&](long long i) { return places[i].average_blocks; });
  const long long own_rows = rows[t], own_cols = cols[t];
  if (own_rows == 0 || own_cols == 0) return;
  const Place place = places[t];
  const float w = h.one_minus_beta2;
  const long long number = blockIdx.x - place.average_blocks, row_blocks = ceil_div(own_rows, BLOCK);
  if (number < row_blocks) {
    const long long row = number * BLOCK + threadIdx.x, across = ceil_div(own_cols, 128);
    float average = 0.0f;
    if (row < own_rows) {
      float sum = 0.0f;
      // Two levels: thousands of equal squares, added one after the other, would be rounded in the same direction.
      for (long long first = 0; first < across; first += 64) {
        float part = 0.0f;
        for (long long k = first; k < across && k < first + 64; ++k)
          part += row_sums[place.row_sums + row * across + k];
        sum += part;
      }
      average = fmaf(w, sum / (float)own_cols, (1.0f - w) * row_var[t][row]);
      row_var[t][row] = average;
    }
    const float all = block_sum(average);
    if (threadIdx.x == 0) row_means[place.row_means + number] = all;
  } else {
    __shared__ float sums[kWarps][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long col = (number - row_blocks) * 32 + lane, down = ceil_div(own_rows, tile_rows(own_cols));
    float sum = 0.0f;
    if (col < own_cols) {
#pragma unroll 8
      for (long long k = warp; k < down; k += kWarps) sum += col_sums[place.col_sums + k * own_cols + col];
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || col >= own_cols) return;
    for (int other = 1; other < kWarps; ++other) sum += sums[other][lane];
    col_var[t][col] = fmaf(w, sum / (float)own_rows, (1.0f - w) * col_var[t][col]);
  }
}

// The mean of row_var, in all threads.
__device__ __forceinline__ float mean_of_rows(const float* __restrict__ row_means, long long rows, const Hyper& h) {
  float sum = 0.0f;
  for (long long k = threadIdx.x; k < ceil_div(rows, BLOCK); k += BLOCK) sum += row_means[k];
  return fmaxf(block_sum(sum) / (float)rows, h.eps1);
}

// The update before it is clipped; `row` is already divided by the mean, for the product of the averages may overflow.
__device__ __forceinline__ float update_of(float grad, float row, float col, float inverse_scale, float floor) {
  return grad * inverse_scale * rsqrtf(fmaxf(row * col, floor));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    update_squares(const float* const* __restrict__ grad, const float* const* __restrict__ row_var,
                   const float* const* __restrict__ col_var, const long long* __restrict__ rows,
                   const long long* __restrict__ cols, long long tensors, const Hyper* __restrict__ hyper,
                   const Place* __restrict__ places, const float* __restrict__ row_means,
                   float2* __restrict__ squares) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Tile tile = tile_of(places, rows, cols, tensors);
  const float mean = mean_of_rows(row_means + places[tile.tensor].row_means, tile.rows, h);
  const float inverse_scale = 1.0f / h.grad_scale, floor = h.eps1 * h.eps1;
  const float* const g = grad[tile.tensor];
  const float* const r = row_var[tile.tensor];
  const bool vectors = tile.vectors && aligned16(g);
  const float4 c = load(col_var[tile.tensor] + tile.col, tile.width, false);
  float sum = 0.0f;
#pragma unroll 4
  for (long long row = tile.row; row < tile.end; row += tile.step) {
    const float4 gg = load(g + row * tile.cols + tile.col, tile.width, vectors);
    const float share = r[row] / mean;
    const float x = update_of(gg.x, share, c.x, inverse_scale, floor);
    const float y = update_of(gg.y, share, c.y, inverse_scale, floor);
    const float z = update_of(gg.z, share, c.z, inverse_scale, floor);
    const float w = update_of(gg.w, share, c.w, inverse_scale, floor);
    sum += (x * x + y * y) + (z * z + w * w);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) squares[blockIdx.x].y = sum;
}

// For each tensor the mean of its rows and what its clipped update is multiplied by.
extern "C" __global__ void __launch_bounds__(BLOCK)
    step_sizes(const long long* __restrict__ rows, const long long* __restrict__ cols, const Hyper* __restrict__ hyper,
               const Place* __restrict__ places, const float* __restrict__ row_means,
               const float2* __restrict__ squares, float2* __restrict__ rates) {
  const Hyper h = *hyper;
  const long long t = blockIdx.x, own_rows = rows[t], own_cols = cols[t];
  if (h.found_inf != 0 || own_rows == 0 || own_cols == 0) return;
  const Place place = places[t];
  const long long tiles = extent_of(own_rows, own_cols).tiles;
  float of_param = 0.0f, of_update = 0.0f;
  for (long long k = threadIdx.x; k < tiles; k += BLOCK) {
    const float2 both = squares[place.tiles + k];
    of_param += both.x;
    of_update += both.y;
  }
  const float n = (float)(own_rows * own_cols);
  const float param_rms = sqrtf(block_sum(of_param) / n), update_rms = sqrtf(block_sum(of_update) / n);
  const float mean = mean_of_rows(row_means + place.row_means, own_rows, h);
  if (threadIdx.x == 0)
    rates[t] = make_float2(mean, fmaxf(h.eps2, param_rms) * h.rho / fmaxf(1.0f, update_rms / h.clip));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    step(float* const* __restrict__ param, const float* const* __restrict__ grad,
         const float* const* __restrict__ row_var, const float* const* __restrict__ col_var,
         const long long* __restrict__ rows, const long long* __restrict__ cols, long long tensors,
         const Hyper* __restrict__ hyper, const Place* __restrict__ places, const float2* __restrict__ rates) {
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  const Tile tile = tile_of(places, rows, cols, tensors);
  const float mean = rates[tile.tensor].x, rate = rates[tile.tensor].y;
  const float inverse_scale = 1.0f / h.grad_scale, floor = h.eps1 * h.eps1, decay = h.lr * h.weight_decay;
  float* const p = param[tile.tensor];
  const float* const g = grad[tile.tensor];
  const float* const r = row_var[tile.tensor];
  const bool vectors = tile.vectors && aligned16(p) && aligned16(g);
  const float4 c = load(col_var[tile.tensor] + tile.col, tile.width, false);
  const auto moved = [&](float pp, float gg, float share, float cc) {
    return fmaf(-rate, update_of(gg, share, cc, inverse_scale, floor), fmaf(-decay, pp, pp));
  };
#pragma unroll 4
  for (long long row = tile.row; row < tile.end; row += tile.step) {
    const long long at = row * tile.cols + tile.col;
    const float4 gg = load(g + at, tile.width, vectors);
    float4 pp = load(p + at, tile.width, vectors);
    const float share = r[row] / mean;
    pp = {moved(pp.x, gg.x, share, c.x), moved(pp.y, gg.y, share, c.y), moved(pp.z, gg.z, share, c.z),
          moved(pp.w, gg.w, share, c.w)};
    if (vectors && tile.width == 4) {
      *reinterpret_cast<float4*>(p + at) = pp;
    } else {
      if (tile.width > 0) p[at] = pp.x;
      if (tile.width > 1) p[at + 1] = pp.y;
      if (tile.width > 2) p[at + 2] = pp.z;
      if (tile.width > 3) p[at + 3] = pp.w;
    }
  }
}
