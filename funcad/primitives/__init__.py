"""The primitives, one family per file; every one is a single expression with all its rules.

Start with `families` (the helpers that write the common rules) and `arithmetic` (their use).
"""
