// Functions that stay functions: recursion, indirect calls, a struct by value, a jump table, local memory.
struct Pair { float a, b; int k; };
typedef float (*Op)(float, float);
static __device__ __noinline__ float op_add(float a, float b) { return a + b; }
static __device__ __noinline__ float op_mul(float a, float b) { return a * b; }
static __device__ __noinline__ float op_sub(float a, float b) { return a - b; }
static __device__ const Op kOps[3] = {op_add, op_mul, op_sub};

static __device__ __noinline__ float depth(float x, int n) { return n <= 0 ? x : depth(x * 0.5f, n - 1) + 1.0f; }
static __device__ __noinline__ float sum_pair(Pair p) { return p.a + p.b * p.k; }

extern "C" __global__ void __launch_bounds__(128, 2) calls(float* out, const int* which, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float local[9];
  for (int k = 0; k < 9; ++k) local[k] = out[i] + k;
  float x = kOps[which[i] % 3](out[i], 2.0f);
  Pair p = {x, local[which[i] % 9], i};
  switch (which[i]) {
    case 0: x = depth(x, 3); break;
    case 1: x = sum_pair(p); break;
    case 2: x = x * x; out[0] = 2; break;
    case 3: x = rsqrtf(x); out[1] = 3; break;
    case 4: x = __expf(x); out[2] = 5; break;
    case 5: x = 1.0f / x; out[3] = 7; break;
    case 6: x = sqrtf(x); out[4] = 11; break;
    default: asm volatile("trap;");
  }
  out[i] = x;
}
