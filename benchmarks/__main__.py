"""`python -m benchmarks [name ...]`: run the benchmarks and print one table."""

from benchmarks import control, harness, memory, random_draws, startup, tracing, w1_scalar, w2_mlp

BENCHMARKS = {
    "startup": startup.run,
    "w1_scalar": w1_scalar.run,
    "w2_mlp": w2_mlp.run,
    "tracing": tracing.run,
    "memory": memory.run,
    "control": control.run,
    "random_draws": random_draws.run,
}

if __name__ == "__main__":
    options = harness.arguments("funcad beside JAX and HIPS autograd.", BENCHMARKS)
    print(harness.versions())
    for name in options.names or BENCHMARKS:
        print(f"\n### {name}\n")
        print(harness.table(BENCHMARKS[name](options.rounds)), flush=True)
