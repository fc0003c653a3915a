#!/usr/bin/env python3
"""Trajectories of optax.lion in float64, for tests/task/golden_test.cc: torch.optim has no Lion.

    python3 tests/golden/make_optax_golden.py --out tests/golden

Writes lion_golden.txt in the format of golden_file.py.
"""
import argparse
import os
import platform

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
    ("defaults", dict(beta1=0.9, beta2=0.99, weight_decay=0.0, lr=1e-4), 0, 0.1),
    ("decay", dict(beta1=0.95, beta2=0.98, weight_decay=0.5, lr=1e-3), 0, 0.1),
    ("small_gradients", dict(beta1=0.85, beta2=0.95, weight_decay=0.1, lr=3e-4), 0, 1e-12),
    ("late", dict(beta1=0.9, beta2=0.999, weight_decay=1.0, lr=1e-2), 1000, 0.01),
    ("large_gradients", dict(beta1=0.8, beta2=0.97, weight_decay=0.2, lr=1e-5), 1000000, 1e6),
    ("some_zero", dict(beta1=0.9, beta2=0.99, weight_decay=0.3, lr=1e-2), 0, 0.1),
]


def run(name, hyper, done, scale):
    draws = Draws("lion/" + name, SIZES, scale)
    param, average = draws.params(), draws.signed()
    grads = [draws.signed() for _ in range(STEPS)]
    rates = draws.rates(STEPS)
    hyper = {key: fp32(value) for key, value in hyper.items()}
    if done == 0:
        average = [[0.0] * n for n in SIZES]
    if name == "some_zero":  # an element that never sees a gradient: only the decay moves it
        for grad in grads:
            grad[0][0] = 0.0

    params = [jnp.array(values, dtype=jnp.float64) for values in param]
    optimizer = optax.inject_hyperparams(optax.lion)(
        learning_rate=hyper["lr"], b1=hyper["beta1"], b2=hyper["beta2"], weight_decay=hyper["weight_decay"])
    state = optimizer.init(params)
    # The state of the chain's first part is that of scale_by_lion: count and mu.
    inner = list(state.inner_state)
    inner[0] = inner[0]._replace(mu=[jnp.array(values, dtype=jnp.float64) for values in average])
    state = state._replace(inner_state=tuple(inner))

    case = Case("lion", name, SIZES)
    case.start("param", param)
    case.start("exp_avg", average)
    for k in range(STEPS):
        now = dict(hyper, lr=fp32(hyper["lr"] * rates[k]))
        for key, value in dict(learning_rate=now["lr"], b1=now["beta1"], b2=now["beta2"],
                               weight_decay=now["weight_decay"]).items():
            state.hyperparams[key] = jnp.asarray(value, dtype=jnp.float64)
        case.step(done + k + 1, now)
        case.values("grad", grads[k])
        updates, state = optimizer.update([jnp.array(values, dtype=jnp.float64) for values in grads[k]], state, params)
        params = optax.apply_updates(params, updates)
        assert all(value.dtype == jnp.float64 for value in params)
        case.values("param", [np.asarray(value).tolist() for value in params])
        case.values("exp_avg", [np.asarray(value).tolist() for value in state.inner_state[0].mu])
    case.end()
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder")
    arguments = parser.parse_args()
    version = f"optax {optax.__version__} jax {jax.__version__} python {platform.python_version()} float64 cpu"
    write(os.path.join(arguments.out, "lion_golden.txt"), version, [run(*case) for case in CASES])


if __name__ == "__main__":
    main()
