"""Small runs for tests: a context over a folder, few frames that are drawn once, answers as told."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from families.f06_pose import spec
from families.f06_pose.ahead import Scenes, shoot
from families.f06_pose.estimators import Answer
from families.f06_pose.world.frames import Shot
from rle import registry
from rle.spec import TaskSpec
from rle.verify_api import TrialFault
from verifier.context import Context, Settings
from verifier.hidden import read_salt
from verifier.isolation import layers
from verifier.submission import freeze

_drawn: dict[tuple, list[Shot]] = {}


def shoot_once(scenes: Scenes) -> list[Shot]:
    """`ahead.shoot`, but the same scenes are drawn once per test process."""
    key = (scenes.kind, tuple(s.key for s in scenes.streams), scenes.frames, scenes.channels)
    if key not in _drawn:
        _drawn[key] = shoot(scenes)
    return _drawn[key]


def make_context(tmp_path: Path, slug: str, files: dict[str, str | bytes]) -> Context:
    """A context over the frozen copy of these files; raises what intake raises."""
    task: TaskSpec = registry.get(f"f06/{slug}")
    source = tmp_path / "source"
    for name, data in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    source.mkdir(parents=True, exist_ok=True)
    plan = layers.plan("strict")
    if plan.own_uid:
        for folder in (tmp_path, *tmp_path.parents):
            if str(folder).startswith("/tmp/"):
                folder.chmod(0o711)
    logs = tmp_path / "logs"
    logs.mkdir()
    frozen = freeze(source, tmp_path / "submission", task)
    return Context(Settings(task, frozen, read_salt(None), plan, {}, logs))


def estimator(body: str, head: str = "") -> str:
    """Text of an `estimator.py` whose `update` has `body`; `self.n` counts the calls."""
    return (
        f"import os, time\nimport numpy as np\n{head}\n\nclass E:\n    n = 0\n\n"
        "    def reset(self):\n        self.resets = getattr(self, 'resets', 0) + 1\n\n"
        "    def update(self, *, rgb, K, T_cam_table, t, depth=None):\n        self.n += 1\n"
        f"        {body}\n\ndef make_estimator():\n    return E()\n"
    )


class Told:
    """A worker and its estimator in one: answers frame k with what `answer(k, shot)` says.

    Args:
        shots: The frames that will be put, in order.
        answer: Returns an `Answer`, or raises.
        seconds: Charged per frame.
    """

    def __init__(
        self,
        shots: list[Shot],
        answer: Callable[[int, Shot], Answer],
        seconds: float = 0.1,
    ) -> None:
        self.wall_s, self.resets = 0.0, 0
        self._shots, self._answer, self._seconds, self._k = shots, answer, seconds, 0

    def start(self, worker: object) -> None:
        self.resets += 1

    def ask(self, worker: object, obs: dict, *, warm_up: bool = False) -> Answer:
        k, self._k = self._k, self._k + 1
        assert obs is self._shots[k].obs, "frames come in order, each once"
        self.wall_s += self._seconds
        return self._answer(k, self._shots[k])


def shots_of(n: int, occluded: int = 0) -> list[Shot]:
    """Frames without pictures: the block wanders, the last ones are hidden."""
    rng = np.random.default_rng(0)
    return [
        Shot({"t": k / spec.FRAME_HZ}, tuple(rng.uniform(-0.2, 0.2, 3)), 1, k >= n - occluded, k)
        for k in range(n)
    ]


def truth(k: int, shot: Shot) -> Answer:
    """The privileged answer."""
    return Answer(shot.pose, shot.shape_id)


def fault(ended: str):
    """Raises a fault of this ending."""

    def answer(k: int, shot: Shot) -> Answer:
        raise TrialFault(ended, "test")

    return answer
