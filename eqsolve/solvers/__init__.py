"""The numerical methods: grids in time, and one solver per kind of structure."""
