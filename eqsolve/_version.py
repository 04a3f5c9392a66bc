"""The version, in a file of its own: parts of the package read it without importing the package."""

__version__ = "0.1.0"
