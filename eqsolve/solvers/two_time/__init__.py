"""Closed equations of one and two times: collocation on panels, marched in time."""
