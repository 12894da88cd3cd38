"""What users call: grad, jvp, vjp, vmap and their relatives, and the border at which trees become lists of arrays."""
