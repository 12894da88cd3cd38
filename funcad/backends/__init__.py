"""What runs a program: the interpreter on any `xp` is the reference, every other engine is tested against it."""
