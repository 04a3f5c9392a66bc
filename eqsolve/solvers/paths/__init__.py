"""Processes with memory and Gaussian drives: sweeps over all paths on one grid."""
