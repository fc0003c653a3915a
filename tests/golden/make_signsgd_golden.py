#!/usr/bin/env python3
"""Trajectories of signSGD with momentum in float64, put together from optax's parts: torch and optax have no Signum.

    python3 tests/golden/make_signsgd_golden.py --out tests/golden

Writes signsgd_golden.txt in the format of golden_file.py. The chain ema, scale_by_sign, add_decayed_weights,
scale_by_learning_rate is algorithm 2 of Bernstein et al. 2018 with optax's own decoupled decay. A second derivation in
exact fractions checks every case, so a part of optax that does not do what its name says would be noticed here.
"""
import argparse
import os
import platform
from fractions import Fraction

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
import optax

from golden_file import Case, Draws, fp32, write

SIZES = [4, 1]
STEPS = 25

# name, hyperparameters, steps done before the first one (0: from a zero average), size of gradients
CASES = [
    ("defaults", dict(beta=0.9, weight_decay=0.0, lr=1e-4), 0, 0.1),
    ("decay", dict(beta=0.95, weight_decay=0.5, lr=1e-3), 0, 0.1),
    ("small_gradients", dict(beta=0.85, weight_decay=0.1, lr=3e-4), 0, 1e-12),
    ("late", dict(beta=0.99, weight_decay=1.0, lr=1e-2), 1000, 0.01),
    ("large_gradients", dict(beta=0.8, weight_decay=0.2, lr=1e-5), 1000000, 1e6),
    ("some_zero", dict(beta=0.9, weight_decay=0.3, lr=1e-2), 0, 0.1),
]


def signum(learning_rate, beta, weight_decay):
    return optax.chain(
        optax.ema(beta, debias=False), optax.scale_by_sign(), optax.add_decayed_weights(weight_decay),
        optax.scale_by_learning_rate(learning_rate))


def exact(param, average, grads, hyper, rates):
    """The last parameters and averages, without any rounding. No average may come so near to zero that the sign in
    float64 would be a matter of rounding."""
    beta, decay = Fraction(hyper["beta"]), Fraction(hyper["weight_decay"])
    params = [[Fraction(x) for x in tensor] for tensor in param]
    averages = [[Fraction(x) for x in tensor] for tensor in average]
    for grad, lr in zip(grads, map(Fraction, rates)):
        for p, m, g in zip(params, averages, grad):
            for i in range(len(p)):
                size = beta * abs(m[i]) + (1 - beta) * abs(Fraction(g[i]))
                m[i] = beta * m[i] + (1 - beta) * Fraction(g[i])
                assert size == 0 or abs(m[i]) > size / 10**9
                p[i] = p[i] * (1 - lr * decay) - lr * ((m[i] > 0) - (m[i] < 0))
    return params, averages


def run(name, hyper, done, scale):
    draws = Draws("signsgd/" + name, SIZES, scale)
    param, average = draws.params(), draws.signed()
    grads = [draws.signed() for _ in range(STEPS)]
    hyper = {key: fp32(value) for key, value in hyper.items()}
    rates = [fp32(hyper["lr"] * rate) for rate in draws.rates(STEPS)]
    if done == 0:
        average = [[0.0] * n for n in SIZES]
    if name == "some_zero":  # an element that never sees a gradient: only the decay moves it
        for grad in grads:
            grad[0][0] = 0.0

    params = [jnp.array(values, dtype=jnp.float64) for values in param]
    averages = [jnp.array(values, dtype=jnp.float64) for values in average]
    case = Case("signsgd", name, SIZES)
    case.start("param", param)
    case.start("exp_avg", average)
    for k in range(STEPS):
        # The rate changes at every step, so the chain is made anew and the average is put into its first part.
        optimizer = signum(rates[k], hyper["beta"], hyper["weight_decay"])
        state = list(optimizer.init(params))
        state[0] = state[0]._replace(ema=averages)
        case.step(done + k + 1, dict(hyper, lr=rates[k]))
        case.values("grad", grads[k])
        updates, state = optimizer.update(
            [jnp.array(values, dtype=jnp.float64) for values in grads[k]], tuple(state), params)
        params = optax.apply_updates(params, updates)
        averages = state[0].ema
        assert all(value.dtype == jnp.float64 for value in params + averages)
        case.values("param", [np.asarray(value).tolist() for value in params])
        case.values("exp_avg", [np.asarray(value).tolist() for value in averages])
    case.end()

    # Two dozen roundings of 2^-53 at most, of parameters around 1 and of averages of the size of the gradients.
    final = exact(param, average, grads, hyper, rates)
    for got, expected, size in zip((params, averages), final, (1, scale)):
        for a, b in zip(got, expected):
            for x, y in zip(np.asarray(a).tolist(), b):
                assert abs(Fraction(x) - y) <= Fraction(size) / 10**14, (name, x, float(y))
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder")
    arguments = parser.parse_args()
    version = f"optax {optax.__version__} jax {jax.__version__} python {platform.python_version()} float64 cpu"
    write(os.path.join(arguments.out, "signsgd_golden.txt"), version, [run(*case) for case in CASES])


if __name__ == "__main__":
    main()
