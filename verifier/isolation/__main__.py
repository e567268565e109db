"""`python -m verifier.isolation`: tries the sandbox of this machine and prints what it gives, as JSON."""

import json
import sys
import tempfile
from pathlib import Path

from rle.errors import InfrastructureError
from verifier.isolation import layers, selftest

PROFILE = "python"
"""Profile that is tried: the one for a submission's own code."""


def main() -> int:
    """Exit code 0 when strict isolation holds here, 4 when a layer is missing or a canary sang."""
    plan = layers.plan("reduced")
    missing = [f"{layer} ({fact}; {fix})" for layer, fact, fix in plan.missing if layer != "uid"]
    answer: dict[str, object] = {"layers": list(plan.layers), "missing": missing, "blocked": []}
    with tempfile.TemporaryDirectory(prefix="rle-isolation-") as folder:
        try:
            answer["blocked"] = selftest.run(PROFILE, layers.plan("strict"), Path(folder)).blocked
        except InfrastructureError as error:
            answer["missing"] = [*missing, error.message]
    print(json.dumps(answer))
    return 4 if answer["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
