"""What may be wrong in a declaration, found before anything runs."""
