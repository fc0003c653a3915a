"""Trajectories of muon_ns5 and muon in float64 by a second derivation: instead of products, the singular value
decomposition of LAPACK (numpy.linalg.svd), with the iteration applied to the singular values as numbers. Momentum, decay
and step are those of torch.optim.Muon written down anew; torch itself rounds its orthogonalisation to bf16, so it is run
beside and must stay as near to the trajectory as its roundings allow.

    python3 make_muon_golden.py        writes muon_golden.txt beside this file; needs numpy and torch 2.9 or later
"""
import math
import os

import numpy
import torch

import golden_file

A, B, C, ITERATIONS = 3.4445, -4.7750, 2.0315, 5
SHAPES = [(4, 6), (6, 4), (3, 3), (1, 5), (5, 1)]
SIZES = [rows * cols for rows, cols in SHAPES]
NAMES = [f"{rows}x{cols}" for rows, cols in SHAPES]


def lifted(values):
    for _ in range(ITERATIONS):
        values = A * values + B * values**3 + C * values**5
    return values


def orthogonalized(matrix, eps):
    norm = max(math.sqrt(float((matrix * matrix).sum())), eps)
    left, values, right = numpy.linalg.svd(matrix / norm, full_matrices=False)
    return (left * lifted(values)) @ right


def matrices(tensors):
    return [numpy.array(values).reshape(shape) for values, shape in zip(tensors, SHAPES)]


def flat(tensors):
    return [[float(x) for x in tensor.reshape(-1)] for tensor in tensors]


def ns5_case(name, scale, eps, first_step, steps=20):
    draws = golden_file.Draws("muon_ns5 " + name, SIZES, scale)
    case = golden_file.Case("muon_ns5", name, NAMES)
    case.start("ortho", draws.params())
    for t in range(first_step, first_step + steps):
        grad = draws.signed()
        case.step(t, {"eps": golden_file.fp32(eps)})
        case.values("grad", grad)
        case.values("ortho", flat([orthogonalized(g, golden_file.fp32(eps)) for g in matrices(grad)]))
    case.end()
    return case


def muon_case(name, scale, lr, momentum, weight_decay, eps, first_step, zero_start=False, steps=24):
    draws = golden_file.Draws("muon " + name, SIZES, scale)
    lr, momentum, weight_decay, eps = map(golden_file.fp32, (lr, momentum, weight_decay, eps))
    case = golden_file.Case("muon", name, NAMES)
    param, buffer = draws.params(), draws.signed()
    if zero_start:
        buffer = [[0.0] * n for n in SIZES]
    case.start("param", param)
    case.start("momentum_buffer", buffer)
    rates = draws.rates(steps)
    ours, averages = matrices(param), matrices(buffer)
    theirs = [torch.nn.Parameter(torch.tensor(p, dtype=torch.float64)) for p in ours]
    optimizer = torch.optim.Muon(theirs, lr=lr, weight_decay=weight_decay, momentum=momentum, eps=eps)
    for parameter, average in zip(theirs, averages):
        optimizer.state[parameter]["momentum_buffer"] = torch.tensor(average, dtype=torch.float64)
    movement = [numpy.zeros(shape) for shape in SHAPES]
    for i in range(steps):
        rate = golden_file.fp32(lr * rates[i])
        grad = draws.signed()
        case.step(first_step + i, {"lr": rate, "momentum": momentum, "weight_decay": weight_decay, "eps": eps})
        for k, g in enumerate(matrices(grad)):
            averages[k] = momentum * averages[k] + (1 - momentum) * g
            mixture = (1 - momentum) * g + momentum * averages[k]
            step = rate * math.sqrt(max(1, g.shape[0] / g.shape[1])) * orthogonalized(mixture, eps)
            ours[k] = ours[k] * (1 - rate * weight_decay) - step
            movement[k] += numpy.abs(step)
            theirs[k].grad = torch.tensor(g, dtype=torch.float64)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        case.values("grad", grad)
        case.values("param", flat(ours))
        case.values("momentum_buffer", flat(averages))
    for k, parameter in enumerate(theirs):
        average = optimizer.state[parameter]["momentum_buffer"].numpy()
        assert numpy.abs(average - averages[k]).max() <= 1e-14 * numpy.abs(averages[k]).max(), (name, k)
        # One orthogonalisation in bf16 is off by 1 to 3 % of its Frobenius norm.
        distance = numpy.linalg.norm(parameter.detach().numpy() - ours[k]) / numpy.linalg.norm(movement[k])
        assert distance < 0.03, (name, k, distance)
        print(f"{name} {NAMES[k]}: torch's bf16 is {distance:.2e} of the movement away")
    case.end()
    return case


def main():
    cases = [
        ns5_case("plain", 0.01, 1e-7, 1),
        ns5_case("large", 1e6, 1e-7, 1000),
        ns5_case("below_eps", 1e-8, 1e-6, 5),
        ns5_case("around_eps", 3e-7, 1e-6, 20),
        ns5_case("late", 1.0, 1e-8, 1000000),
        muon_case("defaults", 0.01, 1e-3, 0.95, 0.1, 1e-7, 1, zero_start=True),
        muon_case("fast", 0.5, 0.04, 0.8, 0.3, 1e-8, 1),
        muon_case("slow", 0.01, 2e-3, 0.975, 0.02, 1e-6, 100),
        muon_case("late", 2.0, 0.01, 0.9, 0.2, 1e-7, 100000),
        muon_case("tiny", 1e-5, 0.02, 0.85, 0.05, 1e-8, 7),
    ]
    version = f"float64; numpy {numpy.__version__} (svd), beside torch {torch.__version__.split('+')[0]}"
    golden_file.write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "muon_golden.txt"), version, cases)


if __name__ == "__main__":
    main()
