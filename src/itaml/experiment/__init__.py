"""Experiments: one learner through one stream, evaluated after every task, resumable to the bit."""
