#!/usr/bin/env python3
"""Trajectories of Shampoo for tests/task/golden_test.cc: a second derivation with 40 digits (mpmath), from the text of
tasks/shampoo/README.md. Its roots come from two Denman-Beavers square roots and an inversion, not from eigenvalues, and
are held against LAPACK's eigenvalues in float64 (numpy) on the way.

    python3 tests/golden/make_shampoo_golden.py --out tests/golden

Writes shampoo_golden.txt in the format of golden_file.py.
"""
import argparse
import os
import platform

import mpmath
import numpy
from mpmath import mpf

from golden_file import Case, Draws, fp32, write

mpmath.mp.dps = 40
SHAPES = [(3, 4), (2, 2), (1, 3)]
STEPS = 20
BUFFERS = ["param", "left_factor", "right_factor", "left_root", "right_root", "exp_avg", "exp_avg_sq"]

# name, hyperparameters, steps done before the first one (0: from zero states), size of gradients
CASES = [
    ("defaults", dict(beta1=0.9, beta2=0.999, factor_beta=0.99, eps=1e-8, matrix_eps=2e-3, weight_decay=0.01,
                      lr=3e-3), 0, 0.1),
    ("strong_decay", dict(beta1=0.95, beta2=0.95, factor_beta=0.9, eps=1e-7, matrix_eps=1e-2, weight_decay=0.3,
                          lr=2e-2), 2, 0.1),
    ("small_gradients", dict(beta1=0.85, beta2=0.99, factor_beta=0.95, eps=1e-6, matrix_eps=1e-3, weight_decay=0.1,
                             lr=1e-3), 6, 1e-6),
    ("late", dict(beta1=0.98, beta2=0.9995, factor_beta=0.999, eps=1e-10, matrix_eps=1.5e-3, weight_decay=0.2, lr=5e-3),
     1000, 0.01),
    ("very_late", dict(beta1=0.9, beta2=0.99, factor_beta=0.98, eps=1e-8, matrix_eps=4e-3, weight_decay=0.05, lr=2e-3),
     1000000, 1.0),
]


def matrix(values, rows, cols):
    return mpmath.matrix([[mpf(values[i * cols + j]) for j in range(cols)]
                          for i in range(rows)])


def flat(a):
    return [float(a[i, j]) for i in range(a.rows) for j in range(a.cols)]


def square_root(a):
    """Denman and Beavers 1976: y goes to a^(1/2) and z to a^(-1/2)."""
    y, z = a, mpmath.eye(a.rows)
    for _ in range(60):
        next_y = (y + z ** -1) / 2
        z = (z + y ** -1) / 2
        done = mpmath.mnorm(next_y - y, "f") <= mpf(10) ** -36 * mpmath.mnorm(next_y, "f")
        y = next_y
        if done:
            return y
    raise RuntimeError("no square root after 60 turns")


def inverse_fourth_root(a):
    root = square_root(square_root(a)) ** -1
    values, vectors = numpy.linalg.eigh(numpy.array(flat(a)).reshape(a.rows, a.cols))
    other = (vectors * values ** -0.25) @ vectors.T
    distance = numpy.linalg.norm(numpy.array(flat(root)).reshape(other.shape) - other) / numpy.linalg.norm(other)
    assert distance < 1e-11, distance
    return root


def damped(factor, hyper, t):
    a = factor / (1 - hyper["factor_beta"] ** t)
    trace = sum(a[i, i] for i in range(a.rows))
    return a + (hyper["matrix_eps"] * trace + mpf(10) ** -12) * mpmath.eye(a.rows)


def each(function, *matrices):
    out = mpmath.matrix(matrices[0].rows, matrices[0].cols)
    for i in range(out.rows):
        for j in range(out.cols):
            out[i, j] = function(*(a[i, j] for a in matrices))
    return out


def step(state, grad, hyper, t):
    """One matrix; `hyper` in mpf."""
    decay = hyper["factor_beta"]
    state["left_factor"] = decay * state["left_factor"] + (1 - decay) * grad * grad.T
    state["right_factor"] = decay * state["right_factor"] + (1 - decay) * grad.T * grad
    state["left_root"] = inverse_fourth_root(damped(state["left_factor"], hyper, t))
    state["right_root"] = inverse_fourth_root(damped(state["right_factor"], hyper, t))
    beta1, beta2 = hyper["beta1"], hyper["beta2"]
    state["exp_avg"] = beta1 * state["exp_avg"] + (1 - beta1) * grad
    state["exp_avg_sq"] = each(lambda v, g: beta2 * v + (1 - beta2) * g * g, state["exp_avg_sq"], grad)
    filtered = state["exp_avg"] / (1 - beta1 ** t)
    graft = each(lambda m, v: m / (mpmath.sqrt(v / (1 - beta2 ** t)) + hyper["eps"]), filtered, state["exp_avg_sq"])
    direction = state["left_root"] * filtered * state["right_root"]
    ratio = mpmath.mnorm(graft, "f") / (mpmath.mnorm(direction, "f") + mpf(10) ** -16)
    state["param"] = state["param"] * (1 - hyper["lr"] * hyper["weight_decay"]) - hyper["lr"] * ratio * direction


def start_factor(draws, side, scale):
    """Average of three products: symmetric, of full rank for up to three rows."""
    rows = [[scale * (draws.random.random() * 2 - 1) for _ in range(side)] for _ in range(3)]
    return [fp32(sum(row[i] * row[j] for row in rows) / 3) for i in range(side) for j in range(side)]


def run(name, hyper, done, scale):
    sizes = [rows * cols for rows, cols in SHAPES]
    draws = Draws("shampoo/" + name, sizes, scale)
    start = {"param": draws.params(), "exp_avg": draws.signed(), "exp_avg_sq": draws.squares()}
    for buffer, side in (("left_factor", 0), ("right_factor", 1)):
        start[buffer] = [start_factor(draws, shape[side], scale) for shape in SHAPES]
    for buffer, side in (("left_root", 0), ("right_root", 1)):  # what is there before the first step is not used
        start[buffer] = [[0.0] * shape[side] ** 2 for shape in SHAPES]
    if done == 0:
        for buffer in BUFFERS[1:]:
            start[buffer] = [[0.0] * len(values) for values in start[buffer]]
    grads = [draws.signed() for _ in range(STEPS)]
    rates = draws.rates(STEPS)
    hyper = {key: fp32(value) for key, value in hyper.items()}

    states = []
    for i, (rows, cols) in enumerate(SHAPES):
        state = {}
        for buffer in BUFFERS:
            shape = {"left": (rows, rows), "righ": (cols, cols)}.get(buffer[:4], (rows, cols))
            state[buffer] = matrix(start[buffer][i], *shape)
        states.append(state)
    case = Case("shampoo", name, [f"{rows}x{cols}" for rows, cols in SHAPES])
    for buffer in BUFFERS:
        case.start(buffer, start[buffer])
    for k in range(STEPS):
        now = dict(hyper, lr=fp32(hyper["lr"] * rates[k]))
        case.step(done + k + 1, now)
        case.values("grad", grads[k])
        exact = {key: mpf(value) for key, value in now.items()}
        for i, state in enumerate(states):
            step(state, matrix(grads[k][i], *SHAPES[i]), exact, done + k + 1)
        for buffer in BUFFERS:
            case.values(buffer, [flat(state[buffer]) for state in states])
    case.end()
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder")
    arguments = parser.parse_args()
    version = (f"mpmath {mpmath.__version__} with 40 digits numpy {numpy.__version__} "
               f"python {platform.python_version()} rounded to float64")
    write(os.path.join(arguments.out, "shampoo_golden.txt"), version, [run(*case) for case in CASES])


if __name__ == "__main__":
    main()
