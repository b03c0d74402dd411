"""
Boost trees on several nodes at once with XGBoost: each worker has a DMatrix of its own part of the data.

The first worker also runs the tracker, where the workers find each other; where it is, how many they are and which one
this is comes from the runtime as DMLC_* variables. The data comes with scikit-learn, so nothing is downloaded.
"""

import os
import socket

import xgboost
from sklearn.datasets import load_breast_cancer
from xgboost import collective
from xgboost.tracker import RabitTracker

HELD_OUT = 0.25
ROUNDS = 20
WORST = 0.93


def start_tracker(host, port, workers):
    """Serve the tracker on this node; it ends with the last worker."""
    tracker = RabitTracker(n_workers=workers, host_ip=socket.gethostbyname(host), port=port)
    tracker.start()
    return tracker


def load(rank, workers):
    """Return this worker's part of the training data, and the held-out data, the same everywhere."""
    data = load_breast_cancer()
    every = range(len(data.target))
    held_out = [index for index in every if index % int(1 / HELD_OUT) == 0]
    training = [index for index in every if index % int(1 / HELD_OUT) != 0]
    mine = training[rank::workers]
    return (data.data[mine], data.target[mine]), (data.data[held_out], data.target[held_out])


def main():
    host, port = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])
    workers, task = int(os.environ["DMLC_NUM_WORKER"]), os.environ["DMLC_TASK_ID"]
    tracker = start_tracker(host, port, workers) if task == "0" else None
    where = {"dmlc_tracker_uri": socket.gethostbyname(host), "dmlc_tracker_port": port, "dmlc_task_id": task}
    # A worker may be there before the tracker is.
    with collective.CommunicatorContext(dmlc_communicator="rabit", dmlc_retry=60, **where):
        rank, world = collective.get_rank(), collective.get_world_size()
        (rows, labels), (held_out, truth) = load(rank, world)
        matrix = xgboost.DMatrix(rows, labels)
        print(f"worker {rank} of {world} has {matrix.num_row()} rows", flush=True)
        parameters = {"objective": "binary:logistic", "max_depth": 3, "tree_method": "hist", "nthread": 1}
        booster = xgboost.train(parameters, matrix, num_boost_round=ROUNDS)
        accuracy = float(((booster.predict(xgboost.DMatrix(held_out)) > 0.5) == truth).mean())
        if rank == 0:
            print(f"held-out accuracy: {accuracy:.3f}", flush=True)
    if tracker:
        tracker.wait_for()
    if accuracy < WORST:
        raise SystemExit(f"held-out accuracy is {accuracy:.3f}, expected at least {WORST}")


if __name__ == "__main__":
    main()
