"""What runs inside a worker. Imports nothing of rle, families or the rest of the verifier."""
