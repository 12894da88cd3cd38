"""`autograd.scipy.stats.multivariate_normal`: the one in funcad.scipy.stats, or else SciPy's."""

from funcad.autograd.mirror import mirror as _mirror

__getattr__, __dir__ = _mirror(__name__, "funcad.scipy.stats.multivariate_normal", "scipy.stats.multivariate_normal")
