"""What the engine makes of a model, in words."""
