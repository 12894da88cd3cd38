"""`python -m funcad`: the tour; `mpirun -n 2 python -m funcad --distributed`: that of several processes."""

import sys

PACKAGES = {"sklearn": "scikit-learn", "threadpoolctl": "threadpoolctl", "matplotlib": "matplotlib", "tqdm": "tqdm"}

try:
    if "--distributed" in sys.argv[1:]:
        from funcad.distributed.processes_tour import main
    else:
        from funcad.tour import main
except ModuleNotFoundError as missing:
    package = PACKAGES.get((missing.name or "").partition(".")[0])
    if package is None:
        raise
    sys.exit(f"The tour needs {package}, which is not installed: pip install {package}")

if __name__ == "__main__":
    sys.exit(main())
