"""Tests of f06."""
