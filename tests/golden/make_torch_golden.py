#!/usr/bin/env python3
"""Trajectories of torch.optim.AdamW and SGD in float64, for tests/task/golden_test.cc.

    python3 tests/golden/make_torch_golden.py --out tests/golden/torch_golden.txt [--device cuda]

Runs on the CPU; with --device cuda also on the GPU, which must agree to 1e-9 of each value; the largest
difference is written into the header. Numbers are hexadecimal floats, so nothing is lost.

File: one record per line.
    version TEXT...                       what made it
    case TASK NAME
    sizes N...                            elements of each tensor
    step T key=hex...                     hyperparameters of the step, exactly as fp32 holds them
    grad|param|STATE TENSOR hex...        inputs of that step and everything after it
    start BUFFER TENSOR hex...            before the first step
    end
"""
import argparse
import platform
import random
import struct

SIZES = [7, 16, 1]
STEPS = 25

# Initial state: False = as torch starts (zero, first step special), else t of the last step already done.
ADAMW_CASES = [
    ("defaults", dict(beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, lr=1e-3), 0, 0.1),
    ("no_decay", dict(beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.0, lr=1e-2), 0, 0.1),
    ("small_gradients", dict(beta1=0.85, beta2=0.99, eps=1e-6, weight_decay=0.1, lr=3e-3), 0, 1e-6),
    ("late", dict(beta1=0.9, beta2=0.9995, eps=1e-10, weight_decay=0.3, lr=5e-4), 1000, 0.01),
    ("very_late", dict(beta1=0.95, beta2=0.999, eps=1e-8, weight_decay=0.1, lr=1e-3), 1000000, 1.0),
    ("second_step_on", dict(beta1=0.8, beta2=0.97, eps=1e-7, weight_decay=0.05, lr=1e-2), 1, 0.3),
]
SGD_CASES = [
    ("plain_momentum", dict(momentum=0.9, dampening=0.0, weight_decay=0.0, nesterov=0, lr=0.1), 0, 0.1),
    ("dampened", dict(momentum=0.9, dampening=0.4, weight_decay=0.0, nesterov=0, lr=0.1), 0, 0.1),
    ("decay", dict(momentum=0.8, dampening=0.25, weight_decay=0.05, nesterov=0, lr=0.05), 0, 0.1),
    ("nesterov", dict(momentum=0.95, dampening=0.0, weight_decay=0.01, nesterov=1, lr=0.02), 0, 0.5),
    ("late", dict(momentum=0.7, dampening=0.1, weight_decay=0.1, nesterov=0, lr=0.01), 1000, 0.01),
    ("nesterov_late", dict(momentum=0.5, dampening=0.0, weight_decay=0.02, nesterov=1, lr=0.1), 1000, 2.0),
]


def fp32(value):
    """The double that fp32 holds for this value."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def draws(name, scale, names):
    """Values for each buffer: doubles that fp32 holds, from a generator that is the same everywhere."""
    rng = random.Random(name)  # seeding with text and random() are stable over Python versions
    out = {"param": [[fp32(rng.random() * 2 - 1) for _ in range(n)] for n in SIZES]}
    for state in names:
        if state == "exp_avg_sq":
            out[state] = [[fp32(scale * scale * (0.5 + rng.random())) for _ in range(n)] for n in SIZES]
        else:
            out[state] = [[fp32(scale * (rng.random() * 2 - 1)) for _ in range(n)] for n in SIZES]
    grads = [[[fp32(scale * (rng.random() * 2 - 1)) for _ in range(n)] for n in SIZES] for _ in range(STEPS)]
    rates = [0.5 + rng.random() for _ in range(STEPS)]
    return out, grads, rates


def run(torch, task, name, hyper, done, scale, device):
    """Lines of one case, and all numbers in order for the comparison of devices."""
    states = ["exp_avg", "exp_avg_sq"] if task == "adamw" else ["momentum_buffer"]
    start, grads, rates = draws(task + "/" + name, scale, states)
    hyper = {key: fp32(value) for key, value in hyper.items()}

    def tensor(values):
        return torch.tensor(values, dtype=torch.float64, device=device)

    params = [torch.nn.Parameter(tensor(values)) for values in start["param"]]
    if task == "adamw":
        optimizer = torch.optim.AdamW(
            params, lr=hyper["lr"], betas=(hyper["beta1"], hyper["beta2"]), eps=hyper["eps"],
            weight_decay=hyper["weight_decay"], foreach=False, fused=False)
    else:
        optimizer = torch.optim.SGD(
            params, lr=hyper["lr"], momentum=hyper["momentum"], dampening=hyper["dampening"],
            weight_decay=hyper["weight_decay"], nesterov=bool(hyper["nesterov"]), foreach=False, fused=False)
    for index, param in enumerate(params):
        if done == 0:
            continue
        state = optimizer.state[param]
        for key in states:
            state[key] = tensor(start[key][index])
        if task == "adamw":
            state["step"] = torch.tensor(float(done), dtype=torch.float64)
    if done == 0:
        for key in states:
            start[key] = [[0.0] * n for n in SIZES]

    lines, numbers = [f"case {task} {name}", "sizes " + " ".join(map(str, SIZES))], []

    def put(word, index, values):
        numbers.extend(values)
        lines.append(f"{word} {index} " + " ".join(value.hex() for value in values))

    for key in ["param"] + states:
        for index, values in enumerate(start[key]):
            put("start " + key, index, values)
    for k in range(STEPS):
        step = done + k + 1
        now = dict(hyper, lr=fp32(hyper["lr"] * rates[k]))
        if task == "sgd_momentum":
            now["is_first_step"] = 1.0 if step == 1 else 0.0
        for group in optimizer.param_groups:
            group["lr"] = now["lr"]
        lines.append(f"step {step} " + " ".join(f"{key}={float(value).hex()}" for key, value in sorted(now.items())))
        for index, param in enumerate(params):
            param.grad = tensor(grads[k][index])
            put("grad", index, grads[k][index])
        optimizer.step()
        for index, param in enumerate(params):
            put("param", index, param.detach().cpu().tolist())
            for key in states:
                put(key, index, optimizer.state[param][key].cpu().tolist())
    lines.append("end")
    return lines, numbers


def all_cases(torch, device):
    lines, numbers = [], []
    for task, cases in (("adamw", ADAMW_CASES), ("sgd_momentum", SGD_CASES)):
        for name, hyper, done, scale in cases:
            case_lines, case_numbers = run(torch, task, name, hyper, done, scale, device)
            lines += case_lines
            numbers += case_numbers
    return lines, numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    import torch

    lines, numbers = all_cases(torch, "cpu")
    versions = f"torch {torch.__version__} python {platform.python_version()} float64 cpu"
    if arguments.device == "cuda":
        _, other = all_cases(torch, "cuda")
        worst = max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(numbers, other))
        if len(other) != len(numbers) or not worst < 1e-9:
            raise SystemExit(f"CPU and GPU differ by {worst} of a value")
        versions += f"; cuda differs by at most {worst:.3g} of a value"
    with open(arguments.out, "w", encoding="ascii") as file:
        file.write("version " + versions + "\n" + "\n".join(lines) + "\n")
    print(f"{arguments.out}: {len(lines)} lines, {versions}")


if __name__ == "__main__":
    main()
