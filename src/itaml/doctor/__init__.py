"""Examine the machine and the installation: what is used, what is missing, what to do about it."""
