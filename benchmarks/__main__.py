"""`python -m benchmarks [name ...]`: run the benchmarks, print a table of each, and the ratios beside their targets."""

from benchmarks import (
    batch_sizes,
    cliffs,
    compile_times,
    control,
    control_flow,
    harness,
    memory,
    random_draws,
    real_programs,
    startup,
    tracing,
    unjitted_peers,
    w1_scalar,
    w2_mlp,
    w3_elementwise,
    w4_logistic,
    w6_softmax,
    w7_layernorm,
    w8_rnn,
    w9_vmap_grad,
    w10_hessian,
    writes,
)

BENCHMARKS = {
    "w1_scalar": w1_scalar.run,
    "w2_mlp": w2_mlp.run,
    "w3_elementwise": w3_elementwise.run,
    "w4_logistic": w4_logistic.run,
    "w6_softmax": w6_softmax.run,
    "w7_layernorm": w7_layernorm.run,
    "w8_rnn": w8_rnn.run,
    "w9_vmap_grad": w9_vmap_grad.run,
    "w10_hessian": w10_hessian.run,
    "w11_startup": startup.run,
    "compile_times": compile_times.run,
    "batch_sizes": batch_sizes.run,
    "tracing": tracing.run,
    "memory": memory.run,
    "control": control.run,
    "control_flow": control_flow.run,
    "random_draws": random_draws.run,
    "real_programs": real_programs.run,
    "unjitted_peers": unjitted_peers.run,
    "cliffs": cliffs.run,
    "writes": writes.run,
}

if __name__ == "__main__":
    options = harness.arguments("funcad beside JAX, torch, HIPS autograd, numexpr, numba and NumPy by hand.", BENCHMARKS)
    print(harness.versions())
    everything = []
    for name in options.names or BENCHMARKS:
        rows = BENCHMARKS[name](options.rounds)
        everything += rows
        print(f"\n### {name}\n\n{harness.table(rows)}", flush=True)
    if harness.ratios(everything):
        print(f"\n### targets\n\n{harness.targets_table(everything)}")
    if options.plot and not harness.plot(everything, options.plot):
        print("no plot: matplotlib is not installed")
