"""Best parameters, and parameters that fit data."""
