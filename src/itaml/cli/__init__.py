"""The command line: one file a command; the only part of the package that prints."""
