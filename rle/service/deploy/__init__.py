"""What a container needs around the broker: places, keeper, hand-over, snapshot, self-check."""
