"""Cases of funcad.scipy.integrate."""

import numpy as np
import scipy.integrate

from tests.surface import case

RNG = np.random.default_rng(9)
Y, X = RNG.normal(size=(3, 6)), np.array([0.0, 0.4, 0.7, 1.5, 1.9, 2.6])
TIMES = np.array([0.0, 0.3, 0.9])
STATE = np.array([0.8, -0.4])


def pendulum(y, t, a):
    return np.stack([y[1], -a * np.sin(y[0]) + 0.1 * t])


def by_scipy(y0, times, a):
    return scipy.integrate.odeint(lambda y, t: [y[1], -a * np.sin(y[0]) + 0.1 * t], y0, times, rtol=1e-11, atol=1e-11)


def on_pendulum(odeint, y0, times, a):
    return odeint(pendulum, y0, times, a, rtol=1e-11, atol=1e-11)


def ivp(solve_ivp, y0, a):
    out = solve_ivp(lambda t, y, a: pendulum(y, t, a), (0.0, 1.0), y0, t_eval=TIMES, args=(a,), rtol=1e-10, atol=1e-10)
    return out.y


def gaussian(quad, a, b, w):
    return quad(lambda x: np.exp(-w * x * x), a, b)[0]


RULES = ("trapezoid", "simpson", "cumulative_trapezoid")

CASES = [
    *[case(f"scipy.integrate.{n}", Y) for n in RULES],
    *[case(f"scipy.integrate.{n}", Y, X) for n in RULES],
    *[case(f"scipy.integrate.{n}", Y[:, :5], kwargs=dict(dx=0.3)) for n in RULES],
    *[case(f"scipy.integrate.{n}", Y, kwargs=dict(axis=0)) for n in RULES],
    case("scipy.integrate.cumulative_trapezoid", Y, kwargs=dict(initial=0)),
    *[case("scipy.integrate.cumulative_simpson", y) for y in (Y, Y[:, :5], Y[:, :2])],
    case("scipy.integrate.cumulative_simpson", Y, X, call=lambda f, y, x: f(y, x=x, initial=1.5)),
    *[case("scipy.integrate.romb", Y[:, :n]) for n in (3, 5)],
    case("scipy.integrate.fixed_quad", 0.2, 1.7, 1.3, call=lambda f, a, b, w: f(lambda x: np.sin(w * x), a, b, n=6)[0]),
    case(
        "scipy.integrate.odeint",
        STATE,
        TIMES,
        1.5,
        call=on_pendulum,
        reference=by_scipy,
        tolerance=1e-6,
        agreement=1e-8,
        missing={"dtype": "LSODA is in double precision"},
    ),
    case("scipy.integrate.quad", 0.2, 1.7, 1.3, call=gaussian, missing={"dtype": "computed in double precision"}),
    case("scipy.integrate.solve_ivp", STATE, 1.5, call=ivp, tolerance=1e-6, agreement=1e-7),
]
for c in CASES:
    c.agreement = c.agreement or 1e-13
DOUBLE = {"dtype": "computed in double precision"}
CASES += [
    case("scipy.integrate.dblquad", 0.2, 0.9, 1.3, agreement=1e-13, missing=DOUBLE,
         call=lambda f, a, b, w: f(lambda y, x: w * x * y, a, b, 0.0, lambda x: w * x)[0]),
    case("scipy.integrate.nquad", 0.9, 1.3, agreement=1e-13, missing=DOUBLE,
         call=lambda f, b, w: f(lambda x, y: np.cos(w * x * y), [lambda y: (0.0, y), (0.1, b)])[0]),
    case("scipy.integrate.quad_vec", 0.2, 0.9, X, agreement=1e-13, missing=DOUBLE,
         call=lambda f, a, b, w: f(lambda x: np.cos(w * x), a, b)[0]),
]  # fmt: skip
