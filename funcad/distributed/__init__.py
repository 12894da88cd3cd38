"""funcad.distributed: the same functions on many processes, over MPI, or over threads that stand for them.

`spmd(f, axis_name)` binds a named axis to the processes, and the collectives inside f go between them. `sum_over(f,
partitions)` is a sum over partitions of data, in files, in processes or on Dask, as a function of the parameters.
"""

from funcad.configuration import public_names as _public_names

# isort: off
from funcad.distributed.communicator import Communicator as Communicator, on_threads as on_threads
from funcad.distributed.mpi_carrier import Mpi as Mpi
from funcad.distributed.partition_tasks import chunks as chunks
from funcad.distributed.partitions import sum_over as sum_over
from funcad.distributed.spmd import (
    broadcast as broadcast, current as current, gather as gather, gather_to as gather_to, halo as halo, minimize as minimize,
    reduce_to as reduce_to, scatter_from as scatter_from, send_recv as send_recv, shard as shard, spmd as spmd,
    value_and_grad as value_and_grad,
)  # fmt: skip
# isort: on

__dir__ = _public_names(globals())
