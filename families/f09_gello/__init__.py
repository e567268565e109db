"""Family f09: springs, counterweights and software that make three hand-held lead arms weightless."""
