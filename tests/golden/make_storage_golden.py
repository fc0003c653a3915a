#!/usr/bin/env python3
"""Trajectories of torch.optim.AdamW in float64 whose weights or moments go through a storage format after every step, for
tests/task/golden_test.cc.

    python3 tests/golden/make_storage_golden.py --out tests/golden

Writes storage_NAME_golden.txt for every storage task, in the format of golden_file.py. The update is torch's; rounding,
splitting, random numbers and codes are worked out here with numpy, apart from the oracles: to bf16 by scaling with powers of
two (and torch's own conversion must agree), to fp32 and its bits by numpy's conversion, codes by looking at all 256 values.
"""
import argparse
import os
import platform
import re

import numpy as np
from golden_file import Case, Draws, fp32, write

STEPS = 25
SMALL = [7, 16, 1]
# name, hyperparameters, steps done before the first one (0: from zero moments), size of gradients.
CASES = [
    ("defaults", dict(beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, lr=1e-3), 0, 0.1),
    ("no_decay", dict(beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.0, lr=1e-2), 0, 0.1),
    ("small_gradients", dict(beta1=0.85, beta2=0.99, eps=1e-6, weight_decay=0.1, lr=3e-3), 0, 1e-6),
    ("late", dict(beta1=0.9, beta2=0.9995, eps=1e-10, weight_decay=0.3, lr=5e-4), 1000, 0.01),
    ("very_late", dict(beta1=0.95, beta2=0.999, eps=1e-8, weight_decay=0.1, lr=1e-3), 1000000, 1.0),
    ("second_step_on", dict(beta1=0.8, beta2=0.97, eps=1e-7, weight_decay=0.05, lr=1e-2), 1, 0.3),
]


def bf16(values):
    """Nearest bf16 values, ties to even, straight from float64."""
    values = np.asarray(values, dtype=np.float64)
    exponent = np.maximum(np.frexp(values)[1] - 1, -126)
    unit = np.ldexp(1.0, exponent - 7)
    return np.rint(values / unit) * unit


def bits_of(values):
    return np.asarray(values, dtype=np.float32).view(np.uint32)


def from_bits(bits):
    return np.asarray(bits, dtype=np.uint32).view(np.float32).astype(np.float64)


def philox(counter, key):
    """Philox4x32-10, Salmon et al., SC 2011."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


# Known answers that the authors publish with Random123 (kat_vectors).
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [
    0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def draws16(count, tensor, step, seed):
    """Sixteen bits per element: the words' halves in order, low half first."""
    halves = []
    for group in range((count + 7) // 8):
        for word in philox([group, 0, tensor, step], [seed, 0]):
            halves += [word & 0xFFFF, word >> 16]
    return np.array(halves[:count], dtype=np.uint32)


def code_map(is_signed):
    """The dynamic map: midpoints of 2^i (unsigned 2^(i+1)) parts of [0.1, 1] times 10^(i-6), 0 and 1."""
    values = [0.0, 1.0]
    for i in range(7):
        edges = np.linspace(0.1, 1.0, 2 ** (i if is_signed else i + 1) + 1)
        middles = (edges[:-1] + edges[1:]) / 2 * 10.0 ** (i - 6)
        values += list(middles) + (list(-middles) if is_signed else [])
    out = np.sort(np.array(values).astype(np.float32)).astype(np.float64)
    assert len(np.unique(out)) == 256
    return out


SIGNED, UNSIGNED = code_map(True), code_map(False)
BLOCK = 256


def quantised(values, table):
    """Codes, and the scale of every block."""
    codes, scales = [], []
    for first in range(0, len(values), BLOCK):
        block = values[first:first + BLOCK]
        scales.append(np.max(np.abs(block)))
        ratio = block / scales[-1] if scales[-1] > 0 else np.zeros_like(block)
        codes += list(np.argmin(np.abs(table[None, :] - ratio[:, None]), axis=1))
    return np.array(codes, dtype=np.float64), np.array(scales)


def decoded(codes, scales, table):
    return table[codes.astype(int)] * np.repeat(scales, BLOCK)[:len(codes)]


class Storage:
    """One tensor as a task stores it. `load` gives what torch starts the step from, `store` takes what it made of it."""

    def __init__(self, index, param, m, v):
        self.index = index
        self.setup(param, m, v)

    def state(self):
        return {name: getattr(self, name) for name in self.names}


class Master(Storage):
    names, moments = ["param", "master", "exp_avg", "exp_avg_sq"], "f32"

    def setup(self, param, m, v):
        self.master, self.exp_avg, self.exp_avg_sq = param, m, v
        self.param = bf16(param)

    def load(self):
        return self.master, self.exp_avg, self.exp_avg_sq

    def store(self, param, m, v, step, hyper):
        self.setup(param, m, v)


class States(Storage):
    names = ["param", "exp_avg", "exp_avg_sq"]

    def setup(self, param, m, v):
        self.param, self.exp_avg, self.exp_avg_sq = param, bf16(m), bf16(v)

    def load(self):
        return self.param, self.exp_avg, self.exp_avg_sq

    def store(self, param, m, v, step, hyper):
        self.setup(param, m, v)


class Kahan(Storage):
    names = ["param", "compensation", "exp_avg", "exp_avg_sq"]

    def setup(self, total, m, v):
        self.param = bf16(total)
        self.compensation = bf16(total - self.param)
        self.exp_avg, self.exp_avg_sq = bf16(m), bf16(v)

    def load(self):
        return self.param, self.exp_avg, self.exp_avg_sq

    def store(self, param, m, v, step, hyper):
        self.setup(param + self.compensation, m, v)  # torch's movement is param - self.param


class Remainder(Storage):
    names = ["param", "remainder", "exp_avg", "exp_avg_sq"]

    def setup(self, master, m, v):
        bits = bits_of(master).astype(np.int64)
        high = (bits + 32768) // 65536
        self.param = from_bits(high * 65536)
        self.remainder = (bits - high * 65536).astype(np.float64)
        assert np.all((self.remainder >= -32768) & (self.remainder <= 32767))
        self.exp_avg, self.exp_avg_sq = m, v

    def load(self):
        joined = from_bits(bits_of(self.param).astype(np.int64) + self.remainder.astype(np.int64))
        return joined, self.exp_avg, self.exp_avg_sq

    def store(self, param, m, v, step, hyper):
        self.setup(param, m, v)


class Stochastic(Storage):
    names = ["param", "exp_avg", "exp_avg_sq"]

    def setup(self, param, m, v):
        self.param, self.exp_avg, self.exp_avg_sq = bf16(param), m, v

    def load(self):
        return self.param, self.exp_avg, self.exp_avg_sq

    def store(self, param, m, v, step, hyper):
        draws = draws16(len(param), self.index, step, int(hyper["seed"]))
        self.param = from_bits((bits_of(param) + draws) & np.uint32(0xFFFF0000))
        self.exp_avg, self.exp_avg_sq = m, v


class Expectation(Stochastic):
    def store(self, param, m, v, step, hyper):
        self.param, self.exp_avg, self.exp_avg_sq = param, m, v


class EightBit(Storage):
    names = ["param", "exp_avg", "exp_avg_scale", "exp_avg_sq", "exp_avg_sq_scale"]

    def setup(self, param, m, v):
        self.param = bf16(param)
        self.exp_avg, self.exp_avg_scale = quantised(m, SIGNED)
        self.exp_avg_sq, self.exp_avg_sq_scale = quantised(v, UNSIGNED)

    def load(self):
        return (self.param, decoded(self.exp_avg, self.exp_avg_scale, SIGNED),
                decoded(self.exp_avg_sq, self.exp_avg_sq_scale, UNSIGNED))

    def store(self, param, m, v, step, hyper):
        self.setup(param, m, v)


# task -> class, whether gradients are bf16, sizes of the cases (the last one repeats)
TASKS = {
    "adamw_bf16_master": (Master, True, [SMALL]),
    "adamw_bf16_states": (States, False, [SMALL]),
    "adamw_bf16_kahan": (Kahan, True, [SMALL]),
    "adamw_bf16_remainder": (Remainder, True, [SMALL]),
    "adamw_bf16_sr": (Stochastic, True, [SMALL]),
    "adamw_bf16_sr_own": (Expectation, True, [SMALL]),
    "adamw_8bit": (EightBit, True, [[5, 259], SMALL]),
}


def shortened(match):
    """The same number in fewer letters: most are codes or have few bits."""
    value = float.fromhex(match.group())
    if value.is_integer() and abs(value) < 1e5:
        return f"{value:.0f}"  # keeps the sign of zero
    return re.sub(r"\.?0+(?=p)", "", match.group())


def run(torch, task, number):
    storage_class, half_gradients, all_sizes = TASKS[task]
    sizes = all_sizes[min(number, len(all_sizes) - 1)]
    name, hyper, done, scale = CASES[number]
    draws = Draws(task + "/" + name, sizes, scale)
    hyper = {key: fp32(value) for key, value in hyper.items()}
    if task.startswith("adamw_bf16_sr"):
        hyper["seed"] = 1000003 * (number + 1)
    params, m, v = draws.params(), draws.signed(0.5), draws.squares()
    if done == 0:
        m = v = [[0.0] * n for n in sizes]
    tensors = [storage_class(i, *(np.array(x[i]) for x in (params, m, v))) for i in range(len(sizes))]
    rates = draws.rates(STEPS)

    case = Case(task, name, sizes)
    for buffer in storage_class.names:
        case.start(buffer, [tensor.state()[buffer] for tensor in tensors])
    for k in range(STEPS):
        step = done + k + 1
        now = dict(hyper, lr=fp32(hyper["lr"] * rates[k]))
        case.step(step, now)
        grads = draws.signed()
        if half_gradients:
            grads = [bf16(values) for values in grads]
        case.values("grad", grads)
        for tensor, grad in zip(tensors, grads):
            param, old_m, old_v = tensor.load()
            leaf = torch.nn.Parameter(torch.tensor(param))
            optimizer = torch.optim.AdamW([leaf], lr=now["lr"], betas=(now["beta1"], now["beta2"]), eps=now["eps"],
                                          weight_decay=now["weight_decay"], foreach=False, fused=False)
            state = optimizer.state[leaf]
            state["exp_avg"], state["exp_avg_sq"] = torch.tensor(old_m), torch.tensor(old_v)
            state["step"] = torch.tensor(float(step - 1), dtype=torch.float64)
            leaf.grad = torch.tensor(np.asarray(grad))
            optimizer.step()
            tensor.store(leaf.detach().numpy().copy(), state["exp_avg"].numpy().copy(),
                         state["exp_avg_sq"].numpy().copy(), step, now)
        for buffer in storage_class.names:
            case.values(buffer, [tensor.state()[buffer] for tensor in tensors])
    case.end()
    case.lines = [re.sub(r"-?0x\S+", shortened, line) for line in case.lines]
    return case


def check_bf16(torch):
    """torch rounds float64 by way of float32; on float32 values the two must agree bit for bit."""
    random = np.random.default_rng(1)
    values = from_bits(random.integers(0, 0x7F000000, 100000, dtype=np.uint32))
    ties = from_bits((random.integers(0, 0x7F00, 1000, dtype=np.uint32) << np.uint32(16)) | np.uint32(0x8000))
    values = np.concatenate([values, -values, ties, [0.0]])
    assert np.array_equal(bf16(values), torch.tensor(values).to(torch.bfloat16).double().numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    import torch

    check_bf16(torch)
    version = f"torch {torch.__version__} numpy {np.__version__} python {platform.python_version()} float64 cpu"
    for task in TASKS:
        cases = [run(torch, task, number) for number in range(len(CASES))]
        name = task.removeprefix("adamw_")
        write(os.path.join(arguments.out, f"storage_{name}_golden.txt"), version, cases)


if __name__ == "__main__":
    main()
