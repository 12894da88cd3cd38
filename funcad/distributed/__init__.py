"""funcad.distributed: the same functions on many processes, over MPI, or over threads that stand for them.

`spmd(f, axis_name)` binds a named axis to the processes, and the collectives inside f go between them. `sum_over(f,
partitions)` is a sum over partitions of data, in files, in processes or on Dask, as a function of the parameters.
"""

from funcad.distributed.broadcasting import broadcast as broadcast
from funcad.distributed.broadcasting import gather as gather
from funcad.distributed.broadcasting import shard as shard
from funcad.distributed.communicator import Communicator as Communicator
from funcad.distributed.data_parallel import value_and_grad as value_and_grad
from funcad.distributed.mpi_carrier import Mpi as Mpi
from funcad.distributed.partition_files import chunks as chunks
from funcad.distributed.partitions import sum_over as sum_over
from funcad.distributed.replicated_minimize import minimize as minimize
from funcad.distributed.spmd import current as current
from funcad.distributed.spmd import spmd as spmd
from funcad.distributed.thread_carrier import on_threads as on_threads
from funcad.names import public_names as _public_names

__dir__ = _public_names(globals())
