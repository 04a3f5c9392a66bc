"""What is read off a solved curve: rates, relaxation, phases."""
