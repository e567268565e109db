"""A client process that steps until it is stopped: `python service_client.py ADDRESS FIRST SEED`.

Action number n carries n in its second value, so that the record tells which actions ran. After each
reply a line `ack STEPS_USED FIRST LAST` says what the service acknowledged.
"""

import random
import sys

import numpy as np

from rle.service import client as c

QUANTUM = 2.0**-22
"""Second value of action number 1; exact in float32 up to number 2^22."""


def batch(first: int, count: int) -> np.ndarray:
    """Actions `first` to `first + count - 1`, shape (count, 2); the point stays where it is."""
    return np.stack([np.zeros(count), QUANTUM * np.arange(first, first + count)], axis=1)


def main() -> None:
    address, first, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    sim = c.connect(address, timeout_s=30.0)
    while True:
        try:
            if not sim.status.live:
                sim.reset()
            count = rng.randint(1, 5)
            print(f"try {first + count - 1}", flush=True)
            sim.step(batch(first, count))
            print(f"ack {sim.status.steps_used} {first} {first + count - 1}", flush=True)
        except c.SimError:
            pass
        except c.ConnectionLostError:
            return
        first += count


if __name__ == "__main__":
    main()
