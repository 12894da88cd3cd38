"""How arrays are looped over, as data: one form for all kinds of fused groups, which each engine prints in its own language."""
