"""The nine task families. Each package has the same five rooms: spec, scene, task, metrics, verify."""

import rle as _rle  # noqa: F401  (chooses the GL backend before a room imports MuJoCo)
