"""Family f04: whole-body motion tracking with a 29-joint humanoid, five clips."""
