"""Passes: what the compiler does to a program before a backend runs it. Each is `Jaxpr -> Jaxpr`; see pipeline.py."""
