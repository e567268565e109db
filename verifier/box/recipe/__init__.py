"""Recipes: a source file that is trained and served again here; see `verifier/recipe.py`."""
