"""Control flow and higher-order primitives: jit's call, cond, while_loop, scan, checkpoint, custom rules.

Each carries programs among its parameters and has all rules, so that every transform passes through it.
"""
