"""The intermediate representation: read this folder first (aval, jaxpr, primitive, trace, interpret, check, pretty)."""
