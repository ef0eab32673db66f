"""The command line: one file per command; the only part of the package that prints."""
