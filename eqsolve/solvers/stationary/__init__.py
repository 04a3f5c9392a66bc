"""The stationary state of systems whose paths are affine in Gaussian drives."""
