"""Sweeps: many runs that are compared, their plans, and the executors that run them."""
