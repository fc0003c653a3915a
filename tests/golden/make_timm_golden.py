#!/usr/bin/env python3
"""Trajectories of timm's Adan in float64, for tests/task/golden_test.cc: torch.optim has no Adan, and optax.adan
weights the differences otherwise than the paper.

    python3 tests/golden/make_timm_golden.py --out tests/golden

Writes adan_golden.txt in the format of golden_file.py.
"""
import argparse
import os
import platform

import timm
import torch
from timm.optim import Adan

from golden_file import Case, Draws, fp32, write

SIZES = [4, 1]
STEPS = 25
STATES = {"exp_avg": "exp_avg", "exp_avg_diff": "exp_avg_diff", "exp_avg_sq": "exp_avg_sq", "prev_grad": "neg_pre_grad"}

# name, hyperparameters, steps done before the first one (0: from zero states, first step special), size of gradients
CASES = [
    ("defaults", dict(beta1=0.98, beta2=0.92, beta3=0.99, eps=1e-8, weight_decay=0.0, lr=1e-3), 0, 0.1),
    ("decay", dict(beta1=0.9, beta2=0.95, beta3=0.95, eps=1e-8, weight_decay=0.3, lr=1e-2), 0, 0.1),
    ("small_gradients", dict(beta1=0.95, beta2=0.85, beta3=0.99, eps=1e-6, weight_decay=0.1, lr=3e-3), 0, 1e-6),
    ("second_step_on", dict(beta1=0.96, beta2=0.9, beta3=0.97, eps=1e-7, weight_decay=0.05, lr=1e-2), 1, 0.3),
    ("late", dict(beta1=0.985, beta2=0.92, beta3=0.999, eps=1e-10, weight_decay=0.2, lr=5e-4), 1000, 0.01),
    ("very_late", dict(beta1=0.98, beta2=0.94, beta3=0.99, eps=1e-8, weight_decay=0.02, lr=1e-3), 1000000, 1.0),
]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def sign_of(buffer):
    """timm keeps the negative of the previous gradient."""
    return -1.0 if buffer == "prev_grad" else 1.0


def run(name, hyper, done, scale):
    draws = Draws("adan/" + name, SIZES, scale)
    start = {"param": draws.params()}
    for buffer in STATES:
        start[buffer] = draws.squares() if buffer == "exp_avg_sq" else draws.signed()
    grads = [draws.signed() for _ in range(STEPS)]
    rates = draws.rates(STEPS)
    hyper = {key: fp32(value) for key, value in hyper.items()}

    params = [torch.nn.Parameter(tensor(values)) for values in start["param"]]
    optimizer = Adan(params, lr=hyper["lr"], betas=(hyper["beta1"], hyper["beta2"], hyper["beta3"]), eps=hyper["eps"],
                     weight_decay=hyper["weight_decay"], no_prox=False, foreach=False)
    if done == 0:
        for buffer in STATES:
            start[buffer] = [[0.0] * n for n in SIZES]
    else:
        optimizer.param_groups[0]["step"] = done
        for index, param in enumerate(params):
            for buffer, key in STATES.items():
                optimizer.state[param][key] = sign_of(buffer) * tensor(start[buffer][index])

    case = Case("adan", name, SIZES)
    for buffer in ["param"] + list(STATES):
        case.start(buffer, start[buffer])
    for k in range(STEPS):
        now = dict(hyper, lr=fp32(hyper["lr"] * rates[k]))
        optimizer.param_groups[0]["lr"] = now["lr"]
        case.step(done + k + 1, dict(now, is_first_step=1.0 if done + k == 0 else 0.0))
        for index, param in enumerate(params):
            param.grad = tensor(grads[k][index])
        case.values("grad", grads[k])
        optimizer.step()
        case.values("param", [param.detach().tolist() for param in params])
        for buffer, key in STATES.items():
            case.values(buffer, [(sign_of(buffer) * optimizer.state[param][key]).tolist() for param in params])
    case.end()
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder")
    arguments = parser.parse_args()
    version = f"timm {timm.__version__} torch {torch.__version__} python {platform.python_version()} float64 cpu"
    write(os.path.join(arguments.out, "adan_golden.txt"), version, [run(*case) for case in CASES])


if __name__ == "__main__":
    main()
