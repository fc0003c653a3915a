#!/usr/bin/env python3
"""Trajectories of torch.optim in float64, for tests/task/golden_test.cc.

    python3 tests/golden/make_torch_golden.py --out tests/golden [--file adam] [--device cuda]

Writes FILE_golden.txt for every FILE of the table below, in the format of golden_file.py. Runs on the CPU; with
--device cuda also on the GPU, which must agree to 1e-9 of each value; the header then has the largest difference.
"""
import argparse
import os
import platform

from golden_file import Case, Draws, fp32, write

# task -> cases: name, hyperparameters, steps done before the first one (0: as torch starts, with zero states), size of
# gradients.
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
ADAM_CASES = [
    ("defaults", dict(beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, lr=1e-3), 0, 0.1),
    ("decay", dict(beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.05, lr=1e-2), 0, 0.1),
    ("decay_rules", dict(beta1=0.85, beta2=0.95, eps=1e-6, weight_decay=0.01, lr=3e-3), 0, 1e-4),
    ("small_gradients", dict(beta1=0.8, beta2=0.99, eps=1e-6, weight_decay=1e-6, lr=3e-3), 0, 1e-6),
    ("late", dict(beta1=0.95, beta2=0.9995, eps=1e-10, weight_decay=0.005, lr=5e-4), 1000, 0.01),
    ("very_late", dict(beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1, lr=1e-3), 1000000, 1.0),
]
AMSGRAD_CASES = [
    ("defaults", dict(beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, lr=1e-3), 0, 0.1),
    ("no_decay", dict(beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.0, lr=1e-2), 0, 0.1),
    ("small_gradients", dict(beta1=0.85, beta2=0.9, eps=1e-6, weight_decay=0.1, lr=3e-3), 0, 1e-6),
    ("late", dict(beta1=0.9, beta2=0.9995, eps=1e-10, weight_decay=0.3, lr=5e-4), 1000, 0.01),
    ("second_step_on", dict(beta1=0.8, beta2=0.9, eps=1e-7, weight_decay=0.05, lr=1e-2), 1, 0.3),
]
NADAM_CASES = [
    ("defaults", dict(beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, momentum_decay=4e-3, lr=2e-3,
                      decoupled_weight_decay=0), 0, 0.1),
    ("decay", dict(beta1=0.85, beta2=0.99, eps=1e-8, weight_decay=0.05, momentum_decay=1e-2, lr=1e-2,
                   decoupled_weight_decay=0), 0, 0.1),
    ("decoupled", dict(beta1=0.95, beta2=0.95, eps=1e-6, weight_decay=0.1, momentum_decay=1e-3, lr=3e-3,
                       decoupled_weight_decay=1), 0, 1e-5),
    ("second_step_on", dict(beta1=0.9, beta2=0.97, eps=1e-8, weight_decay=0.01, momentum_decay=5e-2, lr=2e-3,
                            decoupled_weight_decay=0), 1, 0.3),
    ("tenth_step_on", dict(beta1=0.95, beta2=0.9995, eps=1e-10, weight_decay=0.2, momentum_decay=8e-3, lr=1e-3,
                           decoupled_weight_decay=1), 9, 1.0),
    ("late", dict(beta1=0.8, beta2=0.999, eps=1e-8, weight_decay=0.02, momentum_decay=4e-3, lr=1e-3,
                  decoupled_weight_decay=0), 5000, 0.01),
]
# beta2 decides the step from which on RAdam divides: 6 for these.
RADAM_CASES = [
    ("defaults", dict(beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, lr=1e-3, decoupled_weight_decay=0), 0, 0.1),
    ("decay", dict(beta1=0.85, beta2=0.99, eps=1e-8, weight_decay=0.05, lr=1e-2, decoupled_weight_decay=0), 0, 0.1),
    ("decoupled", dict(beta1=0.95, beta2=0.95, eps=1e-6, weight_decay=0.1, lr=3e-3, decoupled_weight_decay=1), 0, 1e-5),
    ("third_step_on", dict(beta1=0.9, beta2=0.9995, eps=1e-8, weight_decay=0.01, lr=2e-3, decoupled_weight_decay=0), 2,
     0.3),
    ("late", dict(beta1=0.8, beta2=0.999, eps=1e-10, weight_decay=0.2, lr=1e-3, decoupled_weight_decay=1), 1000, 0.01),
    ("very_late", dict(beta1=0.9, beta2=0.97, eps=1e-8, weight_decay=0.02, lr=1e-3, decoupled_weight_decay=0), 1000000,
     1.0),
]
ADAGRAD_CASES = [
    ("defaults", dict(lr=1e-2, lr_decay=0.0, eps=1e-10, weight_decay=0.0), 0, 0.1),
    ("decay", dict(lr=5e-2, lr_decay=0.0, eps=1e-10, weight_decay=0.05), 0, 0.1),
    ("lr_decay", dict(lr=1e-1, lr_decay=1e-2, eps=1e-8, weight_decay=0.01), 0, 0.01),
    ("small_gradients", dict(lr=1e-2, lr_decay=1e-3, eps=1e-6, weight_decay=1e-6), 0, 1e-6),
    ("late", dict(lr=1e-2, lr_decay=1e-4, eps=1e-8, weight_decay=0.02), 1000, 0.01),
    ("very_late", dict(lr=1e-1, lr_decay=1e-5, eps=1e-10, weight_decay=0.1), 1000000, 1.0),
]
RMSPROP_CASES = [
    ("defaults", dict(lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.9), 0, 0.1),
    ("decay", dict(lr=1e-3, alpha=0.9, eps=1e-8, weight_decay=0.05, momentum=0.8), 0, 0.1),
    ("decay_rules", dict(lr=1e-3, alpha=0.95, eps=1e-6, weight_decay=0.01, momentum=0.5), 0, 1e-4),
    ("small_gradients", dict(lr=1e-3, alpha=0.98, eps=1e-6, weight_decay=1e-6, momentum=0.95), 0, 1e-6),
    ("late", dict(lr=1e-3, alpha=0.999, eps=1e-8, weight_decay=0.01, momentum=0.7), 1000, 0.01),
    ("large_gradients", dict(lr=1e-2, alpha=0.97, eps=1e-7, weight_decay=0.1, momentum=0.6), 1000, 100.0),
]


def adam_family(optimizer, **fixed):
    """A class with lr, betas, eps and weight_decay."""

    def make(torch, params, h):
        other = {key: h[key] for key in h if key not in ("lr", "beta1", "beta2", "eps", "weight_decay")}
        if "decoupled_weight_decay" in other:
            other["decoupled_weight_decay"] = bool(other["decoupled_weight_decay"])
        return getattr(torch.optim, optimizer)(
            params, lr=h["lr"], betas=(h["beta1"], h["beta2"]), eps=h["eps"], weight_decay=h["weight_decay"],
            foreach=False, **other, **fixed)

    return make


def make_sgd(torch, params, h):
    return torch.optim.SGD(params, lr=h["lr"], momentum=h["momentum"], dampening=h["dampening"],
                           weight_decay=h["weight_decay"], nesterov=bool(h["nesterov"]), foreach=False, fused=False)


def make_adagrad(torch, params, h):
    return torch.optim.Adagrad(params, lr=h["lr"], lr_decay=h["lr_decay"], eps=h["eps"],
                               weight_decay=h["weight_decay"], foreach=False, fused=False)


def make_rmsprop(torch, params, h):
    return torch.optim.RMSprop(params, lr=h["lr"], alpha=h["alpha"], eps=h["eps"], weight_decay=h["weight_decay"],
                               momentum=h["momentum"], centered=True, foreach=False)


MOMENTS = {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}


class Task:
    def __init__(self, name, cases, make, states, sizes=(4, 1), steps=25):
        self.name, self.cases, self.make, self.states = name, cases, make, states
        self.sizes, self.steps = list(sizes), steps


# file -> tasks. States: the task's buffer -> torch's key.
FILES = {
    "torch": [
        Task("adamw", ADAMW_CASES, adam_family("AdamW", fused=False), MOMENTS, (7, 16, 1)),
        Task("sgd_momentum", SGD_CASES, make_sgd, {"momentum_buffer": "momentum_buffer"}, (7, 16, 1)),
    ],
    "adam": [
        Task("adam", ADAM_CASES, adam_family("Adam", fused=False), MOMENTS),
        Task("amsgrad", AMSGRAD_CASES, adam_family("AdamW", fused=False, amsgrad=True),
             {**MOMENTS, "max_exp_avg_sq": "max_exp_avg_sq"}),
    ],
    "nadam": [
        Task("nadam", NADAM_CASES, adam_family("NAdam"), MOMENTS),
        Task("radam", RADAM_CASES, adam_family("RAdam"), MOMENTS),
    ],
    "rmsprop": [
        Task("adagrad", ADAGRAD_CASES, make_adagrad, {"state_sum": "sum"}),
        Task("rmsprop", RMSPROP_CASES, make_rmsprop,
             {"square_avg": "square_avg", "grad_avg": "grad_avg", "momentum_buffer": "momentum_buffer"}),
    ],
}


def mu_product(hyper, done):
    """NAdam's running product after `done` steps."""
    product = 1.0
    for t in range(1, done + 1):
        product *= hyper["beta1"] * (1.0 - 0.5 * (0.96 ** (t * hyper["momentum_decay"])))
    return product


def drawn_state(draws, buffer):
    if buffer in ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "state_sum"):
        return draws.squares()
    # The mean square of a centred average must lie above the square of its mean.
    return draws.signed(0.6 if buffer == "grad_avg" else 1.0)


def run(torch, task, name, hyper, done, scale, device):
    draws = Draws(task.name + "/" + name, task.sizes, scale)
    start = {"param": draws.params()}
    for buffer in task.states:
        start[buffer] = drawn_state(draws, buffer)
    grads = [draws.signed() for _ in range(task.steps)]
    rates = draws.rates(task.steps)
    hyper = {key: fp32(value) for key, value in hyper.items()}

    def tensor(values):
        return torch.tensor(values, dtype=torch.float64, device=device)

    params = [torch.nn.Parameter(tensor(values)) for values in start["param"]]
    optimizer = task.make(torch, params, hyper)
    if done == 0:
        for buffer in task.states:
            start[buffer] = [[0.0] * n for n in task.sizes]
    else:
        for index, param in enumerate(params):
            state = optimizer.state[param]
            for buffer, key in task.states.items():
                state[key] = tensor(start[buffer][index])
            if task.name != "sgd_momentum":
                state["step"] = torch.tensor(float(done), dtype=torch.float64)
            if task.name == "nadam":
                state["mu_product"] = torch.tensor(mu_product(hyper, done), dtype=torch.float64)

    case = Case(task.name, name, task.sizes)
    for buffer in ["param"] + list(task.states):
        case.start(buffer, start[buffer])
    for k in range(task.steps):
        now = dict(hyper, lr=fp32(hyper["lr"] * rates[k]))
        if task.name == "sgd_momentum":
            now["is_first_step"] = 1.0 if done + k == 0 else 0.0
        if "decoupled_weight_decay" in now:  # torch has one decay and a flag, the tasks two of which one is zero
            decay = now["weight_decay"]
            now["l2_decay"], now["weight_decay"] = (0.0, decay) if now["decoupled_weight_decay"] else (decay, 0.0)
        for group in optimizer.param_groups:
            group["lr"] = now["lr"]
        case.step(done + k + 1, now)
        for index, param in enumerate(params):
            param.grad = tensor(grads[k][index])
        case.values("grad", grads[k])
        optimizer.step()
        case.values("param", [param.detach().cpu().tolist() for param in params])
        for buffer, key in task.states.items():
            case.values(buffer, [optimizer.state[param][key].cpu().tolist() for param in params])
    for param in params:
        for key, value in optimizer.state[param].items():
            assert value.dtype == torch.float64, f"{task.name}: torch keeps {key} as {value.dtype}"
    case.end()
    return case


def all_cases(torch, tasks, device):
    return [run(torch, task, *case, device) for task in tasks for case in task.cases]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder")
    parser.add_argument("--file", choices=sorted(FILES), action="append", help="only this file; may be repeated")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    import torch

    torch.set_default_dtype(torch.float64)  # step and mu_product take this type, not that of the parameter
    for file in arguments.file or sorted(FILES):
        cases = all_cases(torch, FILES[file], "cpu")
        version = f"torch {torch.__version__} python {platform.python_version()} float64 cpu"
        if arguments.device == "cuda":
            numbers = [number for case in cases for number in case.numbers]
            other = [number for case in all_cases(torch, FILES[file], "cuda") for number in case.numbers]
            worst = max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(numbers, other))
            if len(other) != len(numbers) or not worst < 1e-9:
                raise SystemExit(f"CPU and GPU differ by {worst} of a value")
            version += f"; cuda differs by at most {worst:.3g} of a value"
        write(os.path.join(arguments.out, file + "_golden.txt"), version, cases)


if __name__ == "__main__":
    main()
