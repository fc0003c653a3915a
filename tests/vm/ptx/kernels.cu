// Kernels of the VM's execution tests: divergence, reductions, locks, calls, local arrays, tables, dynamic shared memory.
extern "C" __global__ void block_sum(const float* in, float* out, int n) {
  __shared__ float partial[32];
  float x = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x += in[i];
  for (int d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    x = threadIdx.x < (blockDim.x + 31) / 32 ? partial[threadIdx.x] : 0.0f;
    for (int d = 16; d > 0; d >>= 1) x += __shfl_down_sync(0xffffffffu, x, d);
    if (threadIdx.x == 0) atomicAdd(out, x);
  }
}

extern "C" __global__ void tree_sum(const int* in, int* out, int n) {
  extern __shared__ int values[];
  int t = threadIdx.x;
  values[t] = t < n ? in[t] : 0;
  for (int step = blockDim.x / 2; step > 0; step >>= 1) {
    __syncthreads();
    if (t < step) values[t] += values[t + step];
  }
  if (t == 0) out[0] = values[0];
}

// Collatz lengths: loops with different trip counts and nested branches.
extern "C" __global__ void collatz(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long x = i + 1;
  int steps = 0;
  while (x != 1) {
    if (x & 1) {
      x = 3 * x + 1;
    } else {
      x >>= 1;
    }
    if (++steps > 10000) break;
  }
  out[i] = steps;
}

extern "C" __global__ void lock_textbook(int* lock, int* total) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  *(volatile int*)total = *(volatile int*)total + 1;
  __threadfence();
  atomicExch(lock, 0);
}

extern "C" __global__ void lock_done_flag(int* lock, int* total) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *(volatile int*)total = *(volatile int*)total + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

// Blocks pass a token in descending order: needs parked blocks to come back.
extern "C" __global__ void token(int* flag, int* order) {
  if (threadIdx.x == 0) {
    int turn = gridDim.x - 1 - blockIdx.x;
    while (*(volatile int*)flag != turn) {
    }
    order[turn] = blockIdx.x;
    __threadfence();
    atomicAdd(flag, 1);
  }
}

__device__ __noinline__ float poly(float x, int k) {
  float sum = 0.0f;
  for (int i = 0; i <= k; ++i) sum = sum * x + (float)(i + 1);
  return sum;
}
__device__ __noinline__ int twice_and_one(int x) { return (x & 1) ? 2 * x + 1 : 2 * x; }
extern "C" __global__ void calls(const float* in, float* out, int* iout) {
  int i = threadIdx.x;
  float y = in[i];
  if (i % 3 == 0) y = poly(y, i % 5);
  out[i] = y;
  iout[i] = twice_and_one(twice_and_one(i));
}

__constant__ int squares[16] = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225};
__device__ const float table[4] = {1.5f, 2.5f, 3.5f, 4.5f};
extern "C" __global__ void tables(int* out, float* fout, const int* index) {
  int i = threadIdx.x;
  int local[8];
  for (int k = 0; k < 8; ++k) local[k] = k * i;
  out[i] = squares[i & 15] + local[index[i] & 7];
  fout[i] = table[index[i] & 3];
}

extern "C" __global__ void grid_index(int* out) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[i] = (int)(blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z + 1000 * threadIdx.x + 10000 * threadIdx.y + 100000 * threadIdx.z);
}

extern "C" __global__ void histogram(const unsigned char* in, unsigned* bins, int n) {
  __shared__ unsigned local[16];
  if (threadIdx.x < 16) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[in[i] & 15], 1u);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

extern "C" __global__ void narrow(const signed char* a, unsigned char* b, const short* c, unsigned short* d) {
  int i = threadIdx.x;
  b[i] = (unsigned char)(a[i] * 3);
  d[i] = (unsigned short)(c[i] - a[i]);
}

struct Big { float scale[6]; int count; float* out; };
extern "C" __global__ void by_value(const __grid_constant__ Big big, int pick) {
  int i = threadIdx.x;
  if (i < big.count) big.out[i] = big.scale[(i + pick) % 6];
}

extern "C" __global__ void switching(int* out, int n) {
  int i = threadIdx.x;
  int x = 0;
  for (int k = 0; k < n; ++k) {
    switch ((i + k) % 7) {
      case 0: x += 3; break;
      case 1: x ^= i; break;
      case 2: x -= k; break;
      case 3: x = x * 5 + 1; break;
      case 4: x += i * k; break;
      case 5: x = ~x; break;
      default: x >>= 1; break;
    }
  }
  out[i] = x;
}

extern "C" __global__ void last_block(const int* in, int* partial, unsigned* ticket, int* out, int n) {
  __shared__ int sum;
  __shared__ bool last;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&sum, in[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    int total = 0;
    for (int b = 0; b < gridDim.x; ++b) total += partial[b];
    *out = total;
  }
}
