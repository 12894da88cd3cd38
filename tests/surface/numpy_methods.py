"""Cases of the methods and attributes of arrays, and of the operators."""

import numpy as np

from tests.surface import case

X = np.array([[-1.3, 0.4, 2.1], [0.7, -0.2, 1.6]])
Y = np.array([[0.6, -1.7, 0.9], [1.2, 2.3, -0.5]])
P = np.array([[0.35, 1.4, 2.2], [0.8, 3.1, 0.45]])
S = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.5]])
C = np.array([[0.5 + 0.3j, -1.2 + 0.8j], [0.9 - 0.4j, 1.5 + 0.0j]])
I = np.array([[3, -4, 7], [1, 2, -6]])
J = np.array([[2, 3, 1], [1, 4, 2]])
M = np.array([[True, False, True], [False, True, True]])

CASES = [
    *[case(f"ndarray.{n}", X) for n in "T mT real imag shape ndim size dtype itemsize nbytes".split()],
    *[case(f"ndarray.{n}", C) for n in "T real imag conj conjugate".split()],
    *[
        case(f"ndarray.{n}", X)
        for n in "sum mean max min prod std var argmax argmin cumsum cumprod all any ravel flatten copy".split()
    ],
    *[case(f"ndarray.{n}", X, 1) for n in "sum mean max min prod std var argmax argmin cumsum cumprod all any".split()],
    *[case(f"ndarray.{n}", X) for n in "transpose round squeeze argsort conj conjugate".split()],
    case("ndarray.round", X, 1),
    case("ndarray.dot", X, S),
    case("ndarray.reshape", X, 3, 2),
    case("ndarray.reshape", X, (3, -1)),
    case("ndarray.transpose", X, 1, 0),
    case("ndarray.swapaxes", X, 0, 1),
    case("ndarray.squeeze", X[:, None], 1),
    case("ndarray.astype", X, np.complex128),
    case("ndarray.astype", I, np.float32),
    case("ndarray.clip", X, -1.0, 1.0),
    case("ndarray.clip", X, kwargs={"max": 1.0}),
    case("ndarray.diagonal", S, 1),
    case("ndarray.trace", S),
    case("ndarray.take", X, np.array([2, 0]), 1),
    case("ndarray.repeat", X, 2, 1),
    case("ndarray.searchsorted", np.array([0.1, 0.7]), X),
    case("ndarray.choose", J % 2, [I, J]),
    case("ndarray.compress", X, np.array([True, False, True]), 1, static=(1,)),
    case("ndarray.argpartition", X[0], 1, gauge=lambda i: i[1:2]),
    case("ndarray.nonzero", M),
    case("ndarray.device", X, static=(0,)),
    *[case(f"operator.{n}", X, Y) for n in "add sub mul truediv lt le gt ge eq ne".split()],
    *[case(f"operator.{n}", X, 1.5) for n in "add sub mul truediv lt".split()],
    *[case(f"operator.{n}", 1.5, P) for n in "add sub mul truediv pow floordiv mod".split()],
    *[case(f"operator.{n}", X, P) for n in "floordiv mod".split()],
    *[
        case(f"operator.{n}", I, J)
        for n in "add sub mul truediv floordiv mod and_ or_ xor lt eq lshift rshift".split()
        if "shift" not in n
    ],
    *[case(f"operator.{n}", np.abs(I), J) for n in "lshift rshift pow".split()],
    *[case(f"operator.{n}", M, M[::-1].copy()) for n in "and_ or_ xor".split()],
    *[case(f"operator.{n}", X) for n in "neg pos abs".split()],
    *[case(f"operator.{n}", I) for n in "neg invert".split()],
    case("operator.invert", M),
    case("operator.pow", P, Y),
    case("operator.pow", X, 3),
    case("operator.pow", X, -2),
    case("operator.pow", C, 2),
    case("operator.matmul", X, S),
    case("operator.matmul", C, C),
    case("operator.getitem", X, (0, slice(None, None, -1))),
    case("operator.getitem", X, (Ellipsis, None, 1)),
    case("operator.getitem", X, np.array([1, 0, 1])),
    case("operator.getitem", S, (np.array([0, 2]), slice(None), np.array([1, 1])), call=lambda f, x, i: f(x[:, None] * x, i)),
    case("operator.getitem", X, [], reference=lambda x, i: x[i]),
    case("operator.getitem", X, M),
    case("operator.getitem", X, M, static=(1,)),
    case("operator.getitem", X, True),
    case("operator.getitem", X, -1),
    case(
        "operator.contains",
        I,
        7,
        call=lambda f, x, v: np.asarray(f(x, v))[()],
        missing={"cupy": "CuPy's arrays do not answer it"},
    ),
]
