"""
Keys between events and workers.

    queue    what is due, what is in progress, what waits      turns      in which order ready keys are handed out
    delays   keys that are due later                           limiters   how long failed keys wait
"""
