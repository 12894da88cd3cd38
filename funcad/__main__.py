"""`python -m funcad`: the tour."""

import sys

PACKAGES = {"sklearn": "scikit-learn", "threadpoolctl": "threadpoolctl", "matplotlib": "matplotlib", "tqdm": "tqdm"}

try:
    from funcad.tour import main
except ModuleNotFoundError as missing:
    package = PACKAGES.get((missing.name or "").partition(".")[0])
    if package is None:
        raise
    sys.exit(f"The tour needs {package}, which is not installed: pip install {package}")

if __name__ == "__main__":
    sys.exit(main())
