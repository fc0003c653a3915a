// Module-scope variables: state that survives a launch beside tables that do not change.
__device__ unsigned calls;                                     // written: state
__device__ float history[64];                                  // written through a computed address
__device__ const float kLevels[4] = {0.0f, 0.5f, 0.75f, 1.0f};  // read only
__constant__ float kScale[8] = {1, 2, 4, 8, 16, 32, 64, 128};
__device__ const float* const kRows[2] = {kLevels, kLevels + 2};

extern "C" __global__ void counts_calls(float* param, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) atomicAdd(&calls, 1u);
  if (i < n) param[i] += 1.0f;
}

extern "C" __global__ void keeps_history(float* param, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) history[i & 63] = param[i];
}

extern "C" __global__ void static_local(float* param, int n) {
  static __device__ int step = 0;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) step += 1;
  if (i < n) param[i] *= 0.5f;
}

extern "C" __global__ void reads_tables(float* param, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) param[i] = kLevels[i & 3] * kScale[i & 7] + __ldg(&kRows[i & 1][i & 1]);
}
