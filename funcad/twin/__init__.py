"""A user's function, rewritten from its source so that each load, call, operator and store passes a hook; and the net."""
