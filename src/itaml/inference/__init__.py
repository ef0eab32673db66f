"""Algorithms 2 to 4 of the paper: find the task, adapt to it, and how many samples that takes."""
