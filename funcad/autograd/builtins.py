"""`autograd.builtins`: Python's own, which traced values need no replacement for.

>>> from funcad.autograd.builtins import tuple
>>> tuple([1.0, 2.0])
(1.0, 2.0)
"""

from builtins import dict as dict
from builtins import isinstance as isinstance
from builtins import list as list
from builtins import tuple as tuple
from builtins import type as type
