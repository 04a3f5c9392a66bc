"""Grids, operators, modes, quadrature, accelerators and root finders: arrays in, arrays out; no symbols."""
