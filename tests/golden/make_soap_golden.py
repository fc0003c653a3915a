#!/usr/bin/env python3
"""Trajectories of SOAP between two changes of basis, in float64, for tests/task/golden_test.cc, by another way round:
with fixed orthogonal bases SOAP is AdamW on the rotated parameter P' = Q_L^T P Q_R with the gradient Q_L^T G Q_R, and
decay commutes with the rotation. torch.optim.AdamW runs there, and P = Q_L P' Q_R^T is compared.

    python3 tests/golden/make_soap_golden.py --out tests/golden

Writes soap_fixed_basis_golden.txt in the format of golden_file.py.
"""
import argparse
import os
import platform

import numpy
import torch

from golden_file import Case, Draws, fp32, write

SHAPES = [(3, 4), (5, 2), (1, 3)]
STEPS = 20

# name, hyperparameters, steps done before the first one (0: from zero averages), size of gradients
CASES = [
    ("defaults", dict(beta1=0.95, beta2=0.95, eps=1e-8, weight_decay=0.01, lr=3e-3), 0, 0.1),
    ("strong_decay", dict(beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.3, lr=1e-2), 3, 0.1),
    ("small_gradients", dict(beta1=0.85, beta2=0.9, eps=1e-6, weight_decay=0.1, lr=1e-3), 7, 1e-6),
    ("late", dict(beta1=0.98, beta2=0.9995, eps=1e-10, weight_decay=0.2, lr=5e-4), 1000, 0.01),
    ("very_late", dict(beta1=0.95, beta2=0.99, eps=1e-7, weight_decay=0.05, lr=2e-3), 1000000, 1.0),
]


def basis(draws, side):
    """Orthogonal factor of a matrix of random numbers, in float64."""
    numbers = [[draws.random.random() * 2 - 1 for _ in range(side)] for _ in range(side)]
    return numpy.linalg.qr(numpy.array(numbers))[0]


def run(name, hyper, done, scale):
    sizes = [rows * cols for rows, cols in SHAPES]
    draws = Draws("soap/" + name, sizes, scale)
    params, average, squares = draws.params(), draws.signed(), draws.squares()
    if done == 0:
        average = [[0.0] * n for n in sizes]
        squares = [[0.0] * n for n in sizes]
    grads = [draws.signed() for _ in range(STEPS)]
    rates = draws.rates(STEPS)
    left = [basis(draws, rows) for rows, _ in SHAPES]
    right = [basis(draws, cols) for _, cols in SHAPES]
    hyper = {key: fp32(value) for key, value in hyper.items()}

    def into(i, values):
        return torch.tensor(left[i].T @ numpy.array(values).reshape(SHAPES[i]) @ right[i])

    def back(i, values):
        return (left[i] @ values.numpy() @ right[i].T).ravel().tolist()

    rotated = [torch.nn.Parameter(into(i, values)) for i, values in enumerate(params)]
    optimizer = torch.optim.AdamW(rotated, lr=hyper["lr"], betas=(hyper["beta1"], hyper["beta2"]), eps=hyper["eps"],
                                  weight_decay=hyper["weight_decay"], foreach=False, fused=False)
    for i, param in enumerate(rotated):
        optimizer.state[param] = {"step": torch.tensor(float(done), dtype=torch.float64),
                                  "exp_avg": torch.tensor(average[i], dtype=torch.float64).reshape(SHAPES[i]),
                                  "exp_avg_sq": torch.tensor(squares[i], dtype=torch.float64).reshape(SHAPES[i])}

    case = Case("soap_fixed_basis", name, [f"{rows}x{cols}" for rows, cols in SHAPES])
    case.start("param", params)
    case.start("exp_avg", average)
    case.start("exp_avg_sq", squares)
    for k in range(STEPS):
        now = dict(hyper, lr=fp32(hyper["lr"] * rates[k]))
        optimizer.param_groups[0]["lr"] = now["lr"]
        case.step(done + k + 1, now)
        for i, param in enumerate(rotated):
            param.grad = into(i, grads[k][i])
        case.values("grad", grads[k])
        case.values("basis_left", [q.ravel().tolist() for q in left])
        case.values("basis_right", [q.ravel().tolist() for q in right])
        optimizer.step()
        case.values("param", [back(i, param.detach()) for i, param in enumerate(rotated)])
        for buffer in ("exp_avg", "exp_avg_sq"):
            case.values(buffer, [optimizer.state[param][buffer].ravel().tolist() for param in rotated])
    case.end()
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder")
    arguments = parser.parse_args()
    version = f"torch {torch.__version__} numpy {numpy.__version__} python {platform.python_version()} float64 cpu"
    write(os.path.join(arguments.out, "soap_fixed_basis_golden.txt"), version, [run(*case) for case in CASES])


if __name__ == "__main__":
    main()
