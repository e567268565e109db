"""Privileged or scripted solvers that show what a task pays; never part of an agent's tree."""
