"""The nine task families. Each package has the same five rooms: spec, scene, task, metrics, verify."""

<<<<<<< HEAD
import rle  # noqa: F401  # chooses the GL backend before any family imports MuJoCo
=======
import rle as _rle  # noqa: F401  (chooses the GL backend before a room imports MuJoCo)
>>>>>>> main
