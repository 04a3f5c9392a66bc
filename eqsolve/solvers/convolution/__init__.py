"""Systems of one-time functions with memory: convolutions and delays, over many decades of time."""
