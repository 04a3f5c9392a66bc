"""Theory compared with finite-size simulations."""
