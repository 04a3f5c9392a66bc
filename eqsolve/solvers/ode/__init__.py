"""Ordinary differential equations, with random constants by quadrature."""
