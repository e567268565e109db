"""Tests of f07."""
