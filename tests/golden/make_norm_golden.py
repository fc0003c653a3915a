#!/usr/bin/env python3
"""Trajectories of norm-coupled optimizers in float64, for tests/task/golden_test.cc.

    python3 tests/golden/make_norm_golden.py --out tests/golden

Writes norm_golden.txt in the format of golden_file.py: clip_adamw from torch.nn.utils.clip_grad_norm_ and
torch.optim.AdamW, adafactor from torch.optim.Adafactor, lamb from optax.lamb (torch.optim has none).
"""
import argparse
import os
import platform

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
import optax
import torch

from golden_file import Case, Draws, fp32, write

STEPS = 22

# name, hyperparameters, steps done before the first one (0: from zero states), size of gradients. For clip_adamw the
# norm is about 1.6 gradients.
CLIP_CASES = [
    ("clipped", dict(beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, lr=1e-3, max_norm=0.05), 0, 0.1),
    ("not_clipped", dict(beta1=0.85, beta2=0.95, eps=1e-8, weight_decay=0.1, lr=1e-2, max_norm=10.0), 0, 0.1),
    ("about_the_threshold", dict(beta1=0.8, beta2=0.97, eps=1e-7, weight_decay=0.05, lr=1e-2, max_norm=0.45), 1, 0.3),
    ("small_norm", dict(beta1=0.9, beta2=0.99, eps=1e-10, weight_decay=0.02, lr=3e-3, max_norm=1e-6), 100, 2e-6),
    ("scaled_loss", dict(beta1=0.95, beta2=0.999, eps=1e-8, weight_decay=0.3, lr=1e-3, max_norm=0.015, grad_scale=16.0),
     1000, 0.2),
    ("very_late", dict(beta1=0.9, beta2=0.9995, eps=1e-6, weight_decay=0.1, lr=5e-4, max_norm=1.0), 1000000, 5.0),
]
LAMB_CASES = [
    ("defaults", dict(beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01, lr=2e-3), 0, 0.1),
    ("no_decay", dict(beta1=0.85, beta2=0.99, eps=1e-6, weight_decay=0.0, lr=1e-2), 0, 0.1),
    ("zero_tensors", dict(beta1=0.9, beta2=0.95, eps=1e-7, weight_decay=0.1, lr=1e-2), 0, 0.3),
    ("late", dict(beta1=0.95, beta2=0.999, eps=1e-8, weight_decay=0.3, lr=5e-3), 1000, 0.01),
    ("small_gradients", dict(beta1=0.8, beta2=0.97, eps=1e-5, weight_decay=0.05, lr=1e-2), 10, 1e-5),
    ("very_late", dict(beta1=0.9, beta2=0.9995, eps=1e-6, weight_decay=0.05, lr=1e-3), 1000000, 5.0),
]
EPS = float(np.finfo(np.float32).eps)
ADAFACTOR_CASES = [
    ("defaults", dict(beta2_decay=-0.8, eps1=EPS, eps2=1e-3, clip=1.0, weight_decay=0.0, lr=1e-2), 0, 0.1),
    ("decay", dict(beta2_decay=-0.7, eps1=1e-9, eps2=1e-3, clip=1.3, weight_decay=0.1, lr=5e-2), 0, 0.3),
    ("large_eps2", dict(beta2_decay=-0.8, eps1=EPS, eps2=0.9, clip=1.5, weight_decay=0.02, lr=1e-2), 3, 0.1),
    ("late", dict(beta2_decay=-0.8, eps1=1e-8, eps2=1e-2, clip=1.0, weight_decay=0.05, lr=1e-2), 1000, 0.02),
    ("later_than_lr", dict(beta2_decay=-0.9, eps1=1e-10, eps2=1e-4, clip=2.0, weight_decay=0.2, lr=8e-2), 20000, 1.0),
    ("very_late", dict(beta2_decay=-0.6, eps1=EPS, eps2=1e-3, clip=1.1, weight_decay=0.3, lr=3e-3), 1000000, 5.0),
]
# Below the floors torch treats vectors in another way than the task: matrices alone.
ADAFACTOR_SMALL = [
    ("below_the_floors", dict(beta2_decay=-0.8, eps1=1e-3, eps2=1e-3, clip=1.0, weight_decay=0.1, lr=1e-2), 5, 1e-3),
]


def tensor(values, shape=None):
    made = torch.tensor(values, dtype=torch.float64)
    return made if shape is None else made.reshape(shape)


def flat(values):
    return [value.detach().reshape(-1).tolist() for value in values]


def run_clip(name, hyper, done, scale):
    sizes = [4, 1, 3]
    draws = Draws("clip_adamw/" + name, sizes, scale)
    start = {"param": draws.params(), "exp_avg": draws.signed(), "exp_avg_sq": draws.squares()}
    # Both sides of a threshold: no two steps have the same size of gradient.
    grads = [draws.signed(0.5 + k % 4 / 2) for k in range(STEPS)]
    rates = draws.rates(STEPS)
    hyper = {key: fp32(value) for key, value in hyper.items()}
    if done == 0:
        start["exp_avg"] = start["exp_avg_sq"] = [[0.0] * n for n in sizes]
    params = [torch.nn.Parameter(tensor(values)) for values in start["param"]]
    optimizer = torch.optim.AdamW(params, lr=hyper["lr"], betas=(hyper["beta1"], hyper["beta2"]), eps=hyper["eps"],
                                  weight_decay=hyper["weight_decay"], foreach=False, fused=False)
    for index, param in enumerate(params):
        optimizer.state[param] = {"step": torch.tensor(float(done), dtype=torch.float64),
                                  "exp_avg": tensor(start["exp_avg"][index]),
                                  "exp_avg_sq": tensor(start["exp_avg_sq"][index])}
    case = Case("clip_adamw", name, sizes)
    for buffer in start:
        case.start(buffer, start[buffer])
    clipped = 0
    for k in range(STEPS):
        now = dict(hyper, lr=fp32(hyper["lr"] * rates[k]))
        optimizer.param_groups[0]["lr"] = now["lr"]
        case.step(done + k + 1, now)
        for index, param in enumerate(params):
            param.grad = tensor(grads[k][index]) / now.get("grad_scale", 1.0)
        case.values("grad", grads[k])
        norm = torch.nn.utils.clip_grad_norm_(params, now["max_norm"], foreach=False)
        clipped += float(norm) + 1e-6 > now["max_norm"]
        optimizer.step()
        case.values("param", flat(params))
        for buffer in ("exp_avg", "exp_avg_sq"):
            case.values(buffer, flat([optimizer.state[param][buffer] for param in params]))
    print(f"clip_adamw {name}: clipped in {clipped} of {STEPS} steps")
    case.end()
    return case


def run_lamb(name, hyper, done, scale):
    sizes = [5, 1, 6, 2]
    draws = Draws("lamb/" + name, sizes, scale)
    start = {"param": draws.params(), "exp_avg": draws.signed(), "exp_avg_sq": draws.squares()}
    grads = [draws.signed() for _ in range(STEPS)]
    rates = draws.rates(STEPS)
    hyper = {key: fp32(value) for key, value in hyper.items()}
    if done == 0:
        start["exp_avg"] = start["exp_avg_sq"] = [[0.0] * n for n in sizes]
    if name == "zero_tensors":
        start["param"][0] = [0.0] * sizes[0]  # moves with ratio 1 in the first step
        start["param"][3] = [0.0] * sizes[3]  # with a gradient of zero besides: never moves
        for grad in grads:
            grad[3] = [0.0] * sizes[3]

    def arrays(lists):
        return [jnp.array(values, dtype=jnp.float64) for values in lists]

    params = arrays(start["param"])

    def optimizer(h):
        return optax.lamb(h["lr"], b1=h["beta1"], b2=h["beta2"], eps=h["eps"], weight_decay=h["weight_decay"])

    state = list(optimizer(hyper).init(params))
    state[0] = state[0]._replace(count=jnp.asarray(done, dtype=jnp.int32), mu=arrays(start["exp_avg"]),
                                 nu=arrays(start["exp_avg_sq"]))
    state = tuple(state)
    case = Case("lamb", name, sizes)
    for buffer in start:
        case.start(buffer, start[buffer])
    for k in range(STEPS):
        now = dict(hyper, lr=fp32(hyper["lr"] * rates[k]))
        case.step(done + k + 1, now)
        case.values("grad", grads[k])
        updates, state = optimizer(now).update(arrays(grads[k]), state, params)
        params = optax.apply_updates(params, updates)
        assert all(value.dtype == jnp.float64 for value in params)
        case.values("param", [np.asarray(value).tolist() for value in params])
        case.values("exp_avg", [np.asarray(value).tolist() for value in state[0].mu])
        case.values("exp_avg_sq", [np.asarray(value).tolist() for value in state[0].nu])
    case.end()
    return case


def run_adafactor(name, hyper, done, scale, shapes):
    """A vector's row_var is torch's `variance`; its one col_var is the mean of it, by the task's definition."""
    sizes = [rows * cols for rows, cols in shapes]
    draws = Draws("adafactor/" + name, sizes, scale)
    param = draws.params()
    grads = [draws.signed() for _ in range(STEPS)]
    rates = draws.rates(STEPS)
    hyper = {key: fp32(value) for key, value in hyper.items()}
    params = [torch.nn.Parameter(tensor(values, shape if shape[1] > 1 else shape[0]))
              for values, shape in zip(param, shapes)]
    optimizer = torch.optim.Adafactor(params, lr=hyper["lr"], beta2_decay=hyper["beta2_decay"],
                                      eps=(hyper["eps1"], hyper["eps2"]), d=hyper["clip"],
                                      weight_decay=hyper["weight_decay"], foreach=False)
    for one, (rows, cols) in zip(params, shapes):
        row = Draws("rows/" + name, [rows], scale).squares()[0] if done > 0 else [0.0] * rows
        col = Draws("cols/" + name, [cols], scale).squares()[0] if done > 0 else [0.0] * cols
        state = {"step": torch.tensor(float(done), dtype=torch.float64)}
        if cols > 1:
            state["row_var"], state["col_var"] = tensor(row, (rows, 1)), tensor(col, (1, cols))
        else:
            state["variance"] = tensor(row)
        optimizer.state[one] = state

    def states():
        kept = [optimizer.state[one] for one in params]
        return {"row_var": flat([s["row_var"] if "row_var" in s else s["variance"] for s in kept]),
                "col_var": flat([s["col_var"] if "col_var" in s else s["variance"].mean() for s in kept])}

    case = Case("adafactor", name, ["x".join(map(str, shape)) if shape[1] > 1 else shape[0] for shape in shapes])
    case.start("param", param)
    for buffer, values in states().items():
        case.start(buffer, values)
    for k in range(STEPS):
        now = dict(hyper, lr=fp32(hyper["lr"] * rates[k]))
        optimizer.param_groups[0]["lr"] = now["lr"]
        case.step(done + k + 1, now)
        for index, one in enumerate(params):
            one.grad = tensor(grads[k][index], one.shape)
        case.values("grad", grads[k])
        optimizer.step()
        case.values("param", flat(params))
        for buffer, values in states().items():
            case.values(buffer, values)
    for one in params:
        assert all(value.dtype == torch.float64 for value in optimizer.state[one].values())
    case.end()
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder")
    arguments = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    matrices, vectors = [(3, 4), (1, 5), (6, 2)], [(5, 1), (1, 1)]
    cases = [run_clip(*case) for case in CLIP_CASES] + [run_lamb(*case) for case in LAMB_CASES]
    cases += [run_adafactor(*case, matrices + vectors) for case in ADAFACTOR_CASES]
    cases += [run_adafactor(*case, matrices) for case in ADAFACTOR_SMALL]
    version = (f"torch {torch.__version__} optax {optax.__version__} jax {jax.__version__} "
               f"python {platform.python_version()} float64 cpu")
    write(os.path.join(arguments.out, "norm_golden.txt"), version, cases)


if __name__ == "__main__":
    main()
