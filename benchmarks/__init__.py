"""Speed and memory beside JAX and HIPS autograd: `python -m benchmarks` runs everything; see RESULTS.md.

NumPy's BLAS is held to one thread, here, before NumPy is imported: on matrices as small as these a second thread only adds
noise. OPENBLAS_NUM_THREADS in the environment overrides it. JAX uses all the cores that it is given.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
