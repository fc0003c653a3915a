#!/usr/bin/env python3
"""AdamW as torch and optax do it, beside StepBench's baselines, on one GPU and in one run.

    python3 tests/cuda/side_by_side.py BENCH_JSON > table.md

BENCH_JSON is what `stepbench_bench --benchmark_filter=gpu/adamw --benchmark_out=FILE` wrote just before. The others are
timed here as a user meets them: warm caches, whole step between two events, median; torch also as a CUDA graph, which
leaves out the host's work. All in fp32 with the same hyperparameters; gradients are there before the clock starts.
"""
import json
import statistics
import subprocess
import sys

import torch

LISTS = {"[268435456]": [(1 << 28,)]}


def load_lists():
    shapes = json.load(open("tasks/shapes.json"))["lists"]

    def flat(layout):
        for item in layout:
            if isinstance(item, dict):
                for _ in range(item["repeat"]):
                    yield from flat(item["tensors"])
            else:
                yield tuple(item)

    for name in ("gpt2_124m", "resnet50", "llama32_1b"):
        LISTS[name] = list(flat(shapes[name]["layout"]))


def median_ms(run, samples):
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(samples):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def parameters(shapes):
    params = [torch.nn.Parameter(torch.randn(s, device="cuda") * 0.05) for s in shapes]
    for p in params:
        p.grad = torch.randn_like(p) * 0.01
    return params


def torch_fused(shapes, samples):
    params = parameters(shapes)
    optimizer = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01, fused=True)
    eager = median_ms(optimizer.step, samples)
    optimizer = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01, fused=True, capturable=True)
    for _ in range(3):
        optimizer.step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    return eager, median_ms(graph.replay, samples)


def torch_compiled(shapes, samples):
    params = parameters(shapes)
    # Capturable and a tensor as learning rate: otherwise every step compiles again.
    optimizer = torch.optim.AdamW(params, lr=torch.tensor(1e-3, device="cuda"), weight_decay=0.01, capturable=True)
    step = torch.compile(lambda: optimizer.step(), fullgraph=False)
    return median_ms(step, samples)


def optax_jitted(shapes, samples):
    import jax
    import optax

    key = jax.random.PRNGKey(0)
    params = [jax.random.normal(key, s) * 0.05 for s in shapes]
    grads = [jax.random.normal(key, s) * 0.01 for s in shapes]
    tx = optax.adamw(1e-3, weight_decay=0.01)
    state = tx.init(params)

    def step(params, state, grads):
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    jitted = jax.jit(step, donate_argnums=(0, 1))
    import time

    times = []
    for i in range(samples + 3):
        jax.block_until_ready(params)
        begin = time.perf_counter()
        params, state = jitted(params, state, grads)
        jax.block_until_ready(params)
        if i >= 3:
            times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times), jax.__version__, optax.__version__


def main():
    load_lists()
    ours = {}
    for row in json.load(open(sys.argv[1]))["benchmarks"]:
        parts = row["name"].split("/")  # gpu/adamw/multi_tensor/LIST/...
        if row.get("error_occurred") or row.get("run_type") == "aggregate" or parts[1] != "adamw":
            continue
        ours.setdefault(parts[3], {})[parts[2]] = row["real_time"] / 1e3
    if len(sys.argv) > 2 and sys.argv[2] == "optax":  # a process of its own: JAX takes the memory for itself
        result = {}
        for name, shapes in LISTS.items():
            result[name] = optax_jitted(shapes, 20)
        print(json.dumps(result))
        return
    optax_rows = json.loads(
        subprocess.run([sys.executable, __file__, sys.argv[1], "optax"], capture_output=True, text=True,
                       env={**__import__("os").environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
                       check=True).stdout.splitlines()[-1])
    print("| list | tensors | params | best StepBench baseline | torch fused | torch fused, CUDA graph | torch.compile | optax jitted |")
    print("|---|---|---|---|---|---|---|---|")
    for name, shapes in LISTS.items():
        best = min(ours[name], key=ours[name].get)
        eager, graph = torch_fused(shapes, 20)
        torch.cuda.empty_cache()
        try:
            compiled = f"{torch_compiled(shapes, 20):.3f}"
        except Exception as error:  # a compiler that gives up is a result too
            compiled = type(error).__name__
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        params = sum(torch.Size(s).numel() for s in shapes)
        print(f"| {name} | {len(shapes)} | {params / 1e6:.1f}M | {ours[name][best]:.3f} ({best}) | {eager:.3f} | {graph:.3f} "
              f"| {compiled} | {optax_rows[name][0]:.3f} |", flush=True)
    jax_version, optax_version = next(iter(optax_rows.values()))[1:]
    print(f"\ntorch {torch.__version__}, CUDA {torch.version.cuda}, jax {jax_version}, optax {optax_version}; ms per step, medians")


main()
