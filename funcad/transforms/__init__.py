"""The transforms: read this folder second (jvp, partial, linearize, transpose, batch).

Each is an interpreter of jaxprs, `*_eval(jaxpr, values...)`, whose step calls one rule of a primitive; `*_jaxpr` traces the
interpreter to get a program again, memoised on the source program.
"""
