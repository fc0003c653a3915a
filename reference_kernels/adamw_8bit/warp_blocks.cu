/*stepbench
{ "task": "adamw_8bit",
  "note": "one launch for the whole list: a warp takes a block of 256 codes, eight per lane; codes found by arithmetic",
  "defines": {"BLOCK": 256},
  "tunables": {"BLOCK": [128, 256, 512]},
  "launches": [
    {"for": "step", "kernel": "adamw_list",
     "grid": "min(ceil_div(total / 256 + tensors, BLOCK / 32), sms*8)", "block": "BLOCK",
     "args": ["param[]", "grad[]", "exp_avg[]", "exp_avg_scale[]", "exp_avg_sq[]", "exp_avg_sq_scale[]", "n[]",
              "offset[]", "tensors", "total", "hyper"]}
  ] }
*/
#include <stepbench.cuh>

struct Scalars {
  float decay, step_size, w1, w2, inverse_root, eps, inverse_scale;
};

__device__ __forceinline__ Scalars scalars_of(const Hyper& h) {
  return {h.lr * h.weight_decay,        h.step_size, 1.0f - h.beta1, 1.0f - h.beta2,
          1.0f / h.bias_correction2_sqrt, h.eps,       1.0f / h.grad_scale};
}

__device__ __forceinline__ float update(float p, float grad, float& m, float& v, const Scalars& s) {
  const float g = grad * s.inverse_scale;
  const float gg = g * g;
  m = fmaf(s.w1, g, fmaf(-s.w1, m, m));
  v = fmaf(s.w2, gg, fmaf(-s.w2, v, v));
  const float ratio = m / fmaf(sqrtf(v), s.inverse_root, s.eps);
  return p - fmaf(s.decay, p, s.step_size * ratio);
}

// The maps: decade i = 0..6 has 2^(i + finer) values, the middles of equal parts of [10^(i-7), 10^(i-6)].
__constant__ const double kExactEnd[7] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
__device__ constexpr float kUpperEnd[7] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
__device__ constexpr float kInverseEnd[7] = {1e6f, 1e5f, 1e4f, 1e3f, 1e2f, 1e1f, 1.0f};

template <int kFiner>
__device__ constexpr float bottom_of(int i) {  // least value of a decade
  return (float)((double)kUpperEnd[i] * (0.1 + 0.45 / (1 << (i + kFiner))));
}
template <int kFiner>
__device__ constexpr float top_of(int i) {  // largest value of a decade
  return (float)((double)kUpperEnd[i] * (1.0 - 0.45 / (1 << (i + kFiner))));
}

// Value number k of a map, k = 0 for zero, k = 128 << kFiner for one.
template <int kFiner>
__device__ float positive_value(int k) {
  if (k == 0) return 0.0f;
  const int octave = 31 - __clz(k), i = octave - kFiner;
  if (i > 6) return 1.0f;
  const double parts = 1 << octave;
  return (float)(kExactEnd[i] * (0.1 + 0.9 * (k - parts + 0.5) / parts));
}

// Number of the value nearest to a, which lies in [0, 1].
template <int kFiner>
__device__ __forceinline__ int nearest_number(float a) {
  if (a < 0.5f * bottom_of<kFiner>(0)) return 0;
  if (a > 0.5f + 0.5f * top_of<kFiner>(6)) return 128 << kFiner;
  int i = 0;
  float to_parts = kInverseEnd[0] / 0.9f * (1 << kFiner);
#pragma unroll
  for (int next = 1; next < 7; ++next) {
    if (a >= 0.5f * (top_of<kFiner>(next - 1) + bottom_of<kFiner>(next))) {
      i = next;
      to_parts = kInverseEnd[next] / 0.9f * (1 << (next + kFiner));
    }
  }
  const int parts = 1 << (i + kFiner);
  // Within a decade the nearest value is that of the part, whose number is a linear function of a.
  const int part = (int)fmaf(a, to_parts, (float)parts * (-0.1f / 0.9f));
  return parts + max(0, min(part, parts - 1));
}

__device__ __forceinline__ unsigned signed_code(float y) {
  const int k = nearest_number<0>(fabsf(y));
  return (unsigned)(y < 0.0f ? 127 - min(k, 127) : 127 + k);
}
__device__ __forceinline__ unsigned unsigned_code(float y) {
  const int k = nearest_number<1>(y);
  return (unsigned)max(k - 1, 0);
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  return value;
}

// Tensor t owns the numbers from offset[t] / 256 + t on, one per block, and they do not run into the next tensor's.
__device__ __forceinline__ long long tensor_of(const long long* __restrict__ offset, long long tensors,
                                               long long number) {
  long long low = 0, high = tensors;
  while (high - low > 1) {
    const long long middle = (low + high) / 2;
    if (offset[middle] / 256 + middle <= number)
      low = middle;
    else
      high = middle;
  }
  return low;
}

__device__ __forceinline__ float low_half(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high_half(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
__device__ __forceinline__ unsigned packed(float low, float high) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

__device__ __forceinline__ bool aligned(const void* a, unsigned bytes) {
  return (reinterpret_cast<unsigned long long>(a) & (bytes - 1)) == 0;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    adamw_list(uint16_t* const* __restrict__ param, const uint16_t* const* __restrict__ grad,
               uint8_t* const* __restrict__ exp_avg, float* const* __restrict__ exp_avg_scale,
               uint8_t* const* __restrict__ exp_avg_sq, float* const* __restrict__ exp_avg_sq_scale,
               const long long* __restrict__ sizes, const long long* __restrict__ offset, long long tensors,
               long long total, const Hyper* __restrict__ hyper) {
  __shared__ float signed_map[256], unsigned_map[256];
  const Hyper h = *hyper;
  if (h.found_inf != 0) return;
  for (int code = threadIdx.x; code < 256; code += BLOCK) {
    const float magnitude = positive_value<0>(code < 127 ? 127 - code : code - 127);
    signed_map[code] = code < 127 ? -magnitude : magnitude;
    unsigned_map[code] = code == 0 ? 0.0f : positive_value<1>(code + 1);
  }
  __syncthreads();
  const Scalars s = scalars_of(h);
  const int lane = threadIdx.x % 32;
  const long long blocks = total / 256 + tensors;  // some numbers belong to no block
  for (long long number = (long long)blockIdx.x * (BLOCK / 32) + threadIdx.x / 32; number < blocks;
       number += (long long)gridDim.x * (BLOCK / 32)) {
    const long long t = tensor_of(offset, tensors, number);
    const long long block = number - (offset[t] / 256 + t);
    const long long n = sizes[t], first = block * 256 + lane * 8;
    if (block * 256 >= n) continue;
    uint16_t* const p_at = param[t] + first;
    const uint16_t* const g_at = grad[t] + first;
    uint8_t* const m_at = exp_avg[t] + first;
    uint8_t* const v_at = exp_avg_sq[t] + first;
    const bool whole = block * 256 + 256 <= n && aligned(p_at, 16) && aligned(g_at, 16) && aligned(m_at, 8) &&
                       aligned(v_at, 8);
    const int count = (int)max(0ll, min(8ll, n - first));

    float m[8], v[8];
    unsigned p_words[4], g_words[4], m_words[2], v_words[2];
    if (whole) {
      const uint4 p4 = *reinterpret_cast<const uint4*>(p_at);
      const uint4 g4 = __ldcs(reinterpret_cast<const uint4*>(g_at));  // read once, never again
      const uint2 m2 = *reinterpret_cast<const uint2*>(m_at), v2 = *reinterpret_cast<const uint2*>(v_at);
      p_words[0] = p4.x, p_words[1] = p4.y, p_words[2] = p4.z, p_words[3] = p4.w;
      g_words[0] = g4.x, g_words[1] = g4.y, g_words[2] = g4.z, g_words[3] = g4.w;
      m_words[0] = m2.x, m_words[1] = m2.y;
      v_words[0] = v2.x, v_words[1] = v2.y;
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) p_words[k] = g_words[k] = 0;
      m_words[0] = m_words[1] = 0x7f7f7f7fu;  // elements that are not there are zero in both maps
      v_words[0] = v_words[1] = 0;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        if (k >= count) continue;
        const unsigned half = 16 * (k % 2), byte = 8 * (k % 4);
        p_words[k / 2] |= (unsigned)p_at[k] << half;
        g_words[k / 2] |= (unsigned)g_at[k] << half;
        m_words[k / 4] = (m_words[k / 4] & ~(0xffu << byte)) | (unsigned)m_at[k] << byte;
        v_words[k / 4] |= (unsigned)v_at[k] << byte;
      }
    }
    const float m_old_scale = exp_avg_scale[t][block], v_old_scale = exp_avg_sq_scale[t][block];
    float m_most = 0.0f, v_most = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k += 2) {
#pragma unroll
      for (int e = k; e < k + 2; ++e) {
        m[e] = signed_map[m_words[e / 4] >> (8 * (e % 4)) & 0xffu] * m_old_scale;
        v[e] = unsigned_map[v_words[e / 4] >> (8 * (e % 4)) & 0xffu] * v_old_scale;
      }
      const float p0 = update(low_half(p_words[k / 2]), low_half(g_words[k / 2]), m[k], v[k], s);
      const float p1 = update(high_half(p_words[k / 2]), high_half(g_words[k / 2]), m[k + 1], v[k + 1], s);
      p_words[k / 2] = packed(p0, p1);
      m_most = fmaxf(m_most, fmaxf(fabsf(m[k]), fabsf(m[k + 1])));
      v_most = fmaxf(v_most, fmaxf(v[k], v[k + 1]));
    }
    m_most = warp_max(m_most);
    v_most = warp_max(v_most);
    // A block of zeros is divided by one: its codes are those of zero.
    const float m_unit = m_most > 0.0f ? m_most : 1.0f, v_unit = v_most > 0.0f ? v_most : 1.0f;
    m_words[0] = m_words[1] = v_words[0] = v_words[1] = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      m_words[k / 4] |= signed_code(m[k] / m_unit) << (8 * (k % 4));
      v_words[k / 4] |= unsigned_code(v[k] / v_unit) << (8 * (k % 4));
    }
    if (lane == 0) {
      exp_avg_scale[t][block] = m_most;
      exp_avg_sq_scale[t][block] = v_most;
    }
    if (whole) {
      __stcs(reinterpret_cast<uint4*>(p_at), make_uint4(p_words[0], p_words[1], p_words[2], p_words[3]));
      __stcs(reinterpret_cast<uint2*>(m_at), make_uint2(m_words[0], m_words[1]));
      __stcs(reinterpret_cast<uint2*>(v_at), make_uint2(v_words[0], v_words[1]));
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        if (k >= count) continue;
        p_at[k] = (uint16_t)(p_words[k / 2] >> (16 * (k % 2)));
        m_at[k] = (uint8_t)(m_words[k / 4] >> (8 * (k % 4)));
        v_at[k] = (uint8_t)(v_words[k / 4] >> (8 * (k % 4)));
      }
    }
  }
}
