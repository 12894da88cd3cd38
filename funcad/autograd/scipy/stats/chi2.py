"""`autograd.scipy.stats.chi2`: funcad.scipy.stats.chi2, and what that does not have from SciPy."""

from funcad.foreign_names import mirror as _mirror

__getattr__, __dir__ = _mirror(__name__, "funcad.scipy.stats.chi2", "scipy.stats.chi2")
