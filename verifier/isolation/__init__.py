"""What protects a run: layers of the kernel, the start of a worker, its channel, its self-test."""
