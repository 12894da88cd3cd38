"""`autograd.scipy.stats.dirichlet`: funcad.scipy.stats.dirichlet, and what that does not have from SciPy."""

from funcad.foreign_names import mirror as _mirror

__getattr__, __dir__ = _mirror(__name__, "funcad.scipy.stats.dirichlet", "scipy.stats.dirichlet")
