"""Programs of the kinds that are written for HIPS autograd, un-jitted: the list that `benchmarks.real_programs` measures."""

from benchmarks.real import counts, dynamics, manifolds, mixtures, networks, processes, state_space, survival

PROGRAMS = [
    *survival.PROGRAMS,
    *counts.PROGRAMS,
    *mixtures.PROGRAMS,
    *processes.PROGRAMS,
    *manifolds.PROGRAMS,
    *networks.PROGRAMS,
    *state_space.PROGRAMS,
    *dynamics.PROGRAMS,
]
