"""Theory held against runs at finite size."""
