"""Systems in discrete time with noise that is drawn in every step: many paths, advanced together, exactly."""
