"""The mean-field system of a microscopic flow, derived."""
