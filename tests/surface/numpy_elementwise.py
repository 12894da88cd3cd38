"""Cases of funcad.numpy's elementwise functions."""

import numpy as np

from tests.surface import case

X = np.array([[-1.3, 0.4, 2.1], [0.7, -0.2, 1.6]])
Y = np.array([[0.6, -1.7, 0.9], [1.2, 2.3, -0.5]])
P = np.array([[0.3, 1.4, 2.2], [0.8, 3.1, 0.45]])  # positive
U = np.array([[0.3, -0.4, 0.2], [-0.8, 0.1, 0.6]])  # inside (-1, 1)
C = np.array([0.5 + 0.3j, -1.2 + 0.8j, 0.9 - 0.4j])
I = np.array([[3, -4, 7], [1, 2, -6]])
J = np.array([[2, 3, 1], [5, 4, 2]])
B = np.array([[True, False, True], [False, True, True]])
ROW = np.array([0.5, -1.5, 2.5])

REAL = (
    "sin cos tan sinh cosh tanh arcsinh arctan exp exp2 expm1 square negative positive absolute fabs cbrt sinc deg2rad "
    "rad2deg degrees radians reciprocal real imag conjugate nan_to_num"
).split()
FLAT = "sign floor ceil trunc rint round fix".split()  # derivative 0
COMPLEX = "sin cos tan sinh cosh tanh arcsinh arctan exp expm1 square negative positive absolute reciprocal sqrt".split()
COMPLEX += "log log10 log2 log1p arcsin arccos arctanh arccosh real imag conjugate angle sinc nan_to_num".split()

CASES = [
    *[case(f"numpy.{n}", X) for n in REAL + FLAT],
    *[case(f"numpy.{n}", C) for n in COMPLEX],
    *[case(f"numpy.{n}", P) for n in "sqrt log log2 log10 log1p".split()],
    *[case(f"numpy.{n}", U) for n in "arcsin arccos arctanh".split()],
    case("numpy.arccosh", P + 1.0),
    *[case(f"numpy.{n}", np.zeros((0, 3))) for n in ("sin", "negative", "sqrt", "floor", "maximum") if n != "maximum"],
    *[case(f"numpy.{n}", 0.7) for n in ("sin", "tanh", "arctan", "sign", "absolute")],
    *[case(f"numpy.{n}", I) for n in ("negative", "absolute", "square", "sign", "sin", "exp2", "floor", "rint", "conjugate")],
    *[
        case(f"numpy.{n}", X, Y)
        for n in "add subtract multiply divide maximum minimum fmax fmin hypot arctan2 logaddexp logaddexp2 copysign".split()
    ],
    *[case(f"numpy.{n}", X, ROW) for n in "add subtract multiply divide maximum arctan2 hypot remainder fmod".split()],
    *[case(f"numpy.{n}", X, 1.5) for n in "add multiply divide minimum logaddexp".split()],
    *[case(f"numpy.{n}", C, C[::-1] * 1.1) for n in "add subtract multiply divide power float_power".split()],
    case("numpy.power", P, Y),
    case("numpy.power", X, 3),
    case("numpy.power", P, 0.5),
    case("numpy.power", P, J),
    case("numpy.power", J, 2),
    case("numpy.float_power", P, Y),
    case("numpy.float_power", X, 2),
    *[case(f"numpy.{n}", X, P) for n in "remainder fmod floor_divide".split()],
    *[case(f"numpy.{n}", I, J) for n in "remainder fmod floor_divide divide add multiply".split()],
    case("numpy.divmod", X, P),
    case("numpy.modf", X),
    case("numpy.frexp", X),
    case("numpy.ldexp", X, J),
    case("numpy.heaviside", X, Y),
    case("numpy.nextafter", X, Y),  # moves by less than the differences can see: the derivative of x
    case("numpy.spacing", X),
    case("numpy.clip", X, -1.0, 1.0),
    case("numpy.clip", X, -P, P),
    case("numpy.clip", X, None, 1.0),
    case("numpy.clip", X, kwargs={"min": -0.5}),
    case("numpy.round", X, 1),
    case("numpy.around", X, kwargs={"decimals": 1}),
    case("numpy.angle", C, kwargs={"deg": True}),
    case("numpy.angle", X),
    case("numpy.nan_to_num", np.array([1.0, np.nan, np.inf, -np.inf]), nondiff=(0,), kwargs={"nan": 2.0, "posinf": 3.0}),
    case("numpy.i0", X),
    case("numpy.unwrap", np.array([0.0, 2.5, 5.9, 9.4, 0.3])),
    *[case(f"numpy.{n}", I, J) for n in "bitwise_and bitwise_or bitwise_xor gcd lcm".split()],
    *[case(f"numpy.{n}", np.abs(I), J) for n in "left_shift right_shift bitwise_left_shift bitwise_right_shift".split()],
    *[case(f"numpy.{n}", I) for n in "invert bitwise_not bitwise_invert bitwise_count".split()],
    *[case(f"numpy.{n}", X, Y) for n in "equal not_equal less less_equal greater greater_equal".split()],
    *[case(f"numpy.{n}", I, J) for n in "equal not_equal less less_equal greater greater_equal".split()],
    *[case(f"numpy.{n}", X, Y) for n in "logical_and logical_or logical_xor".split()],
    *[case(f"numpy.{n}", B, B[::-1].copy()) for n in "logical_and logical_or logical_xor bitwise_and".split()],
    case("numpy.logical_not", X),
    *[
        case(f"numpy.{n}", np.array([1.0, np.nan, np.inf, -np.inf, -0.0]))
        for n in "isnan isinf isfinite isneginf isposinf signbit".split()
    ],
    *[case(f"numpy.{n}", C.real + 0j) for n in "isreal iscomplex isnan isfinite".split()],
    case("numpy.isclose", X, X + 1e-9),
    case("numpy.allclose", X, X + 1e-9, kwargs={"rtol": 1e-3}),
    case("numpy.array_equal", X, Y),
    case("numpy.array_equal", X, X.copy()),
    case("numpy.array_equiv", X, X[:1]),
]
