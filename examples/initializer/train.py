"""Learns from the files that the initializer has fetched: `python train.py DIRECTORY`. It knows of no S3."""

import csv
import sys
from pathlib import Path

from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

HELD_OUT = 4
WORST = 0.93


def main():
    files = sorted(file for file in Path(sys.argv[1]).rglob("*") if file.is_file() and ".ktrain" not in file.parts)
    print("there are", ", ".join(file.relative_to(sys.argv[1]).as_posix() for file in files), flush=True)
    rows = [[float(value) for value in row] for file in files for row in csv.reader(file.open())]
    training = [row for number, row in enumerate(rows) if number % HELD_OUT]
    held_out = rows[::HELD_OUT]
    scaler = StandardScaler().fit([row[:-1] for row in training])
    model = LogisticRegression(max_iter=500)
    model.fit(scaler.transform([row[:-1] for row in training]), [row[-1] for row in training])
    accuracy = model.score(scaler.transform([row[:-1] for row in held_out]), [row[-1] for row in held_out])
    print(f"{len(rows)} rows, held-out accuracy: {accuracy:.3f}", flush=True)
    if accuracy < WORST:
        raise SystemExit(f"held-out accuracy is {accuracy:.3f}, expected at least {WORST}")


if __name__ == "__main__":
    main()
