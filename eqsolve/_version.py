"""The version, in a file of its own: parts of the package read it without importing the package."""

__version__ = "0.1.0"
YEAR = 2026  # of this version
