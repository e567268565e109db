"""Sandboxed tests run in the same contexts as the verifier's own."""

from tests.verifier.conftest import make_context

__all__ = ["make_context"]
