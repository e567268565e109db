"""Writes the three stock lead arms that an agent starts from; run it again and the same bytes come out.

python assets/gello/build.py [--check]
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from families.f09_gello.scene import stock_xml  # noqa: E402  (the checkout is put on the path first)
from families.f09_gello.spec import ARM_NAMES  # noqa: E402

HERE = Path(__file__).resolve().parent
STARTER_TRIM = '''"""Software of one lead arm: four functions, here without any effect. Replace them."""

import numpy as np

PROBES = 15


def plan_probe(model, sample, lower, upper):
    """Poses to probe. Shape (15, nv), rad, within lower .. upper.

    sample: {"target": (nv,), "q": (nv,)} of the probe at home.
    """
    return np.tile(np.clip(sample["target"], lower, upper), (PROBES, 1))


def adapt(model, probes):
    """Anything that make_trim_adapted needs; it stays in the worker.

    probes: list of 16 dicts {"target": (nv,), "q": (nv,)}, rad, the one at home first.
    """
    return None


def make_trim(model):
    """Returns q (nv,) -> feedforward torque (nv,), N m, of the device as drawn."""
    return lambda q: np.zeros(model.nv)


def make_trim_adapted(model, params):
    """Returns q (nv,) -> feedforward torque (nv,), N m, of the device that was probed."""
    return lambda q: np.zeros(model.nv)
'''


def files() -> dict[Path, str]:
    """Path and content of every starter file."""
    found = {}
    for arm in ARM_NAMES:
        found[HERE / arm / "lead.xml"] = stock_xml(arm)
        found[HERE / arm / "trim.py"] = STARTER_TRIM
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    stale = [p for p, text in files().items() if not p.is_file() or p.read_text() != text]
    for path in stale:
        print(f"{'differs' if check else 'wrote'}: {path.relative_to(HERE)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files()[path])
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
