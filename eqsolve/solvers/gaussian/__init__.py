"""Systems whose paths are affine in Gaussian drives: a Gaussian law on one grid, no paths."""
