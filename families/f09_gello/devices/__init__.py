"""Built copies of an arm: what is drawn of them, what is measured, and the row that tells it."""
