"""Tests of family f09."""
