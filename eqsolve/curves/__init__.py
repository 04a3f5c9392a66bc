"""What is read off solutions along a curve: rates, relaxation, phases; solutions followed along a parameter, or iterated."""
