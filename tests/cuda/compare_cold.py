#!/usr/bin/env python3
"""A second opinion on the times: the same machine code, timed by a program that shares nothing with the harness.

    python3 tests/cuda/compare_cold.py KERNEL.cu N...     (cupy; KERNEL.cu is reference_kernels/adamw/float4.cu)

Plain cudaMalloc buffers, the L2 cache flushed by reading 512 MiB before each step, events around the launch, no gate:
cold timing as nvbench does it (it flushes by writing, which leaves dirty lines to the kernel that follows; so the
flush here reads). Prints a line "n median_us" for each size.
"""
import re
import statistics
import sys

import cupy

SAMPLES, WARM_UPS = 300, 20
HEADER = """
struct Hyper { int step; float lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2,
               bias_correction2_sqrt, step_size, grad_scale; int found_inf; };
"""


def main():
    source = open(sys.argv[1]).read()
    block = int(re.search(r'"BLOCK": (\d+)', source).group(1))
    source = source.replace("#include <stepbench.cuh>", HEADER)
    module = cupy.RawModule(code=f"#define BLOCK {block}\n" + source, options=("--std=c++17",), backend="nvrtc")
    kernel = module.get_function("adamw_step")
    flush = cupy.ones(1 << 27, dtype=cupy.float32)
    beta1, beta2, step = 0.9, 0.999, 100
    values = cupy.array([step], dtype=cupy.int32).view(cupy.float32).get().tolist()
    c1, c2 = 1 - beta1**step, 1 - beta2**step
    values += [1e-3, beta1, beta2, 1e-8, 0.01, c1, c2, c2**0.5, 1e-3 / c1, 1.0]
    hyper = cupy.array(values + [0.0], dtype=cupy.float32)
    hyper[0:1] = cupy.array([step], dtype=cupy.int32).view(cupy.float32)
    for n in map(int, sys.argv[2:]):
        param, m = (cupy.random.standard_normal(n, dtype=cupy.float32) * s for s in (0.05, 0.003))
        grad = cupy.random.standard_normal(n, dtype=cupy.float32) * 0.01
        v = (cupy.random.standard_normal(n, dtype=cupy.float32) * 0.01) ** 2
        grid = (-(-n // (4 * block)),)
        times = []
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        for i in range(SAMPLES + WARM_UPS):
            flush.sum()
            begin.record()
            kernel(grid, (block,), (param, grad, m, v, cupy.int64(n), hyper))
            end.record()
            end.synchronize()
            if i >= WARM_UPS:
                times.append(1e3 * cupy.cuda.get_elapsed_time(begin, end))
        print(n, f"{statistics.median(times):.3f}", flush=True)


main()
