"""What the make_*_golden.py scripts share: draws that are the same everywhere, and the format of the files.

One record per line, numbers as hexadecimal floats, so that nothing is lost:

    version TEXT...                       what made it
    case TASK NAME
    sizes N...                            elements of each tensor; ROWSxCOLS for a matrix
    start BUFFER TENSOR hex...            before the first step
    step T key=hex...                     hyperparameters of the step, exactly as fp32 holds them
    INPUT|STATE TENSOR hex...             inputs of that step and everything after it
    end
"""
import random
import struct


def fp32(value):
    """The double that fp32 holds for this value."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


class Draws:
    """Doubles that fp32 holds, by a name that is the seed: random.random() is stable over Python versions."""

    def __init__(self, name, sizes, scale):
        self.random = random.Random(name)
        self.sizes = sizes
        self.scale = scale

    def _fill(self, value):
        return [[fp32(value(self.random.random())) for _ in range(n)] for n in self.sizes]

    def params(self):
        return self._fill(lambda x: x * 2 - 1)

    def signed(self, factor=1.0):
        """Gradients and first moments."""
        return self._fill(lambda x: factor * self.scale * (x * 2 - 1))

    def squares(self):
        """Second moments: above half of scale^2."""
        return self._fill(lambda x: self.scale * self.scale * (0.5 + x))

    def rates(self, steps):
        return [0.5 + self.random.random() for _ in range(steps)]


class Case:
    """Lines of one case, and all numbers in order for the comparison of two ways to compute them."""

    def __init__(self, task, name, sizes):
        self.lines = [f"case {task} {name}", "sizes " + " ".join(map(str, sizes))]
        self.numbers = []

    def start(self, buffer, tensors):
        self.values("start " + buffer, tensors)

    def step(self, t, hyper):
        pairs = (f"{key}={float(value).hex()}" for key, value in sorted(hyper.items()))
        self.lines.append(f"step {t} " + " ".join(pairs))

    def values(self, buffer, tensors):
        for index, values in enumerate(tensors):
            self.numbers.extend(values)
            self.lines.append(f"{buffer} {index} " + " ".join(float(value).hex() for value in values))

    def end(self):
        self.lines.append("end")


def write(path, version, cases):
    lines = ["version " + version] + [line for case in cases for line in case.lines]
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    print(f"{path}: {len(lines)} lines, {version}")
