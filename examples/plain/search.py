"""
Try several learning rates on several nodes, in plain Python: no library, and no node knows of another.

Kubernetes tells a node which one it is, in JOB_COMPLETION_INDEX; how many there are is an argument.
"""

import os
import sys

SLOPE, OFFSET = 3.0, -1.0
POINTS = [(x / 10, SLOPE * x / 10 + OFFSET) for x in range(-10, 11)]
RATES = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
STEPS = 200


def fit(rate):
    """Fit a line by gradient descent; returns the mean squared error at the end."""
    slope = offset = 0.0
    for _ in range(STEPS):
        errors = [slope * x + offset - y for x, y in POINTS]
        slope -= rate * 2 * sum(error * x for error, (x, _) in zip(errors, POINTS, strict=True)) / len(POINTS)
        offset -= rate * 2 * sum(errors) / len(POINTS)
    return sum((slope * x + offset - y) ** 2 for x, y in POINTS) / len(POINTS)


def main():
    node, nodes = int(os.environ["JOB_COMPLETION_INDEX"]), int(sys.argv[1])
    for rate in RATES[node::nodes]:
        print(f"learning rate {rate}: loss {fit(rate):.6f}", flush=True)


if __name__ == "__main__":
    main()
