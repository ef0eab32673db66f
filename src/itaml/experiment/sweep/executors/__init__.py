"""Executors: where the runs of a sweep are computed."""
