"""f06, blind planar pose estimation: where a pushed block is, how it is turned, and which block it is."""
