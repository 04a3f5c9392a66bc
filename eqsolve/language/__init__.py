"""What a user writes: symbols, nodes, laws, equations, and the four kinds of model built from them."""
