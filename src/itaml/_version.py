"""The version, read by the build and by `itaml --version` without importing anything else."""

__version__ = "0.2.0"
