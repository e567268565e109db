"""f08: one chassis on mecanum wheels that carries three different arms, and its shelf controller."""
