"""Programs of `python -m benchmarks.cold`: each as users of HIPS autograd have it, and as users of funcad write it.

Idea: a program is text that a new process runs. Its lines for one library (`own`, `autograd`) come first: the imports, and what
the two spell differently. Then `text`, which both share: `data(n, i)` gives the arguments of size n for the i-th call, in plain
numbers and NumPy arrays, and `program(n)` makes the objective anew and gives its derivative. Traps: what is made outside
`program` is shared by all calls of a process, as in a module of a user's; data come from `wave`, since numpy.random takes
longer to load than some programs run.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PROGRAMS", "Program"]


class Program(NamedTuple):
    """One program; `size` and the nine that follow it are the sizes of its data."""

    name: str
    text: str
    own: str
    autograd: str
    size: int = 20
    growth: int = 1

    def sizes(self) -> list[int]:
        """Ten different sizes."""
        return [self.size + i * self.growth for i in range(10)]


def _of_both(line: str, *more: tuple[str, str]) -> tuple[str, str]:
    """The first lines of a program: `line` names what both libraries have at their top."""
    own = ["import numpy as np", f"from funcad import {line}"] if line else ["import numpy as np"]
    theirs = ["import autograd.numpy as np", f"from autograd import {line}"] if line else ["import autograd.numpy as np"]
    return "\n".join([*own, *[o for o, _ in more]]), "\n".join([*theirs, *[t for _, t in more]])


_GRAD = _of_both("grad")
_VALUE = _of_both("value_and_grad")


def _scipy(what: str) -> tuple[str, str]:
    return f"from scipy.{what}", f"from autograd.scipy.{what}"


PROGRAMS = [
    # -- functions of one number
    Program("one number, a formula", """
data = lambda n, i: (0.5 + 0.1 * i + n / 100,)
def program(n):
    def f(x):
        return np.sin(x) * x + np.exp(-x) / (1.0 + x**2)
    return grad(f)
""", *_GRAD),
    Program("logistic function, third derivative", """
data = lambda n, i: (0.5 + 0.1 * i + n / 100,)
def program(n):
    def f(x):
        return 1.0 / (1.0 + np.exp(-x))
    return grad(grad(grad(f)))
""", *_GRAD),
    Program("Newton's iteration, while", """
data = lambda n, i: (2.0 + 0.1 * i + n / 10,)
def program(n):
    def root(a):
        x = a
        while abs(x * x - a) > 1e-9:
            x = 0.5 * (x + a / x)
        return x
    return grad(root)
""", *_GRAD),
    Program("series, for with an if", """
data = lambda n, i: (0.3 + 0.01 * i,)
def program(n):
    def series(x):
        total, term = 0.0, 1.0
        for k in range(n):
            term = term * x / (k + 1)
            total = total + term if k % 2 else total - term
        return total
    return grad(series)
""", *_GRAD, size=20, growth=2),
    # -- functions of arrays
    Program("Rosenbrock", """
data = lambda n, i: (wave(n) + 0.01 * i,)
def program(n):
    def f(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    return grad(f)
""", *_GRAD),
    Program("tanh, element by element", """
data = lambda n, i: (wave(n) + 0.01 * i,)
def program(n):
    def tanh(x):
        y = np.exp(-2.0 * x)
        return (1.0 - y) / (1.0 + y)
    return elementwise_grad(elementwise_grad(tanh))
""", *_of_both("elementwise_grad")),
    Program("Huber loss with where", """
X, Y = lambda n: wave(n, 4), lambda n: wave(n) * 3.0
data = lambda n, i: (wave(4) + 0.01 * i,)
def program(n):
    x, y = X(n), Y(n)
    def loss(w):
        r = np.dot(x, w) - y
        return np.mean(np.where(np.abs(r) < 1.0, 0.5 * r**2, np.abs(r) - 0.5))
    return value_and_grad(loss)
""", *_VALUE),
    Program("autocorrelation, Fourier transform", """
data = lambda n, i: (wave(n) + 0.01 * i,)
def program(n):
    def f(x):
        spectrum = np.fft.fft(x)
        return np.sum(np.real(np.fft.ifft(spectrum * np.conj(spectrum))) ** 2)
    return grad(f)
""", *_GRAD),
    Program("matrix factorisation with a mask", """
data = lambda n, i: (wave(n, 3) + 0.01 * i, wave(7, 3))
def program(n):
    y = wave(n, 7)
    seen = y > 0
    def loss(u, v):
        return np.sum(np.where(seen, y - np.dot(u, v.T), 0.0) ** 2) + 0.1 * (np.sum(u**2) + np.sum(v**2))
    return grad(loss, (0, 1))
""", *_GRAD),
    # -- networks
    Program("network of two layers, list of pairs", """
data = lambda n, i: ([(wave(n, 8) + 0.01 * i, wave(8)), (wave(8, 3), wave(3))],)
def program(n):
    inputs, targets = wave(16, n), wave(16, 3)
    def loss(params):
        h = inputs
        for w, b in params[:-1]:
            h = np.tanh(np.dot(h, w) + b)
        w, b = params[-1]
        return np.mean((np.dot(h, w) + b - targets) ** 2)
    return value_and_grad(loss)
""", *_VALUE),
    Program("network of three layers, dictionary, softmax", """
data = lambda n, i: ({"w1": wave(n, 8) + 0.01 * i, "b1": wave(8), "w2": wave(8, 6), "b2": wave(6), "w3": wave(6, 4)},)
def program(n):
    inputs, labels = wave(12, n), [k % 4 for k in range(12)]
    def loss(p):
        h = np.maximum(np.dot(inputs, p["w1"]) + p["b1"], 0.0)
        h = np.maximum(np.dot(h, p["w2"]) + p["b2"], 0.0)
        logits = np.dot(h, p["w3"])
        return -np.mean((logits - logsumexp(logits, axis=1, keepdims=True))[np.arange(12), labels])
    return grad(loss)
""", *_of_both("grad", _scipy("special import logsumexp"))),
    Program("recurrent network, 15 steps", """
data = lambda n, i: ((wave(n, n) * 0.3 + 0.01 * i, wave(4, n), wave(n)),)
def program(n):
    inputs = wave(15, 4)
    def loss(params):
        w, u, b = params
        h = np.zeros(n)
        for x in inputs:
            h = np.tanh(np.dot(h, w) + np.dot(x, u) + b)
        return np.sum(h**2)
    return grad(loss)
""", *_GRAD, size=8),
    Program("attention, einsum", """
data = lambda n, i: (wave(n, 4) + 0.01 * i, wave(n, 4))
def program(n):
    values = wave(n, 4)
    def f(q, k):
        scores = np.einsum("id,jd->ij", q, k) / 2.0
        weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        weights = weights / np.sum(weights, axis=1, keepdims=True)
        return np.sum(np.einsum("ij,jd->id", weights, values) ** 2)
    return grad(f, (0, 1))
""", *_GRAD),
    Program("a class with parameters and a method", """
class Model:
    def __init__(self, n):
        self.x, self.y, self.scale = wave(n, 3), wave(n), 0.5
    def predict(self, w):
        return self.scale * np.tanh(np.dot(self.x, w))
    def loss(self, w):
        return np.mean((self.predict(w) - self.y) ** 2)
data = lambda n, i: (wave(3) + 0.01 * i,)
program = lambda n: grad(Model(n).loss)
""", *_GRAD),
    Program("gradient descent unrolled, its step size", """
data = lambda n, i: (0.01 + 0.001 * i,)
def program(n):
    x, y = wave(n, 3), wave(n)
    def loss(w):
        return np.mean((np.dot(x, w) - y) ** 2)
    step = grad(loss)
    def after(rate):
        w = np.ones(3)
        for _ in range(5):
            w = w - rate * step(w)
        return loss(w)
    return grad(after)
""", *_GRAD),
    Program("penalty on an inner gradient", """
data = lambda n, i: (wave(3, 3) + 0.01 * i,)
def program(n):
    points = wave(3)
    def f(w):
        u = lambda x: np.sum(np.tanh(np.dot(w, x)) ** 2)
        return u(points) + np.sum(grad(u)(points) ** 2)
    return grad(f)
""", *_GRAD),
    # -- likelihoods
    Program("logistic regression", """
data = lambda n, i: (wave(4) + 0.01 * i,)
def program(n):
    x, y = wave(n, 4), np.array([k % 2 for k in range(n)])
    def loss(w):
        z = np.dot(x, w)
        return np.sum(np.logaddexp(0.0, z) - y * z) + 0.5 * np.dot(w, w)
    return grad(loss)
""", *_GRAD),
    Program("mixture of normals, logsumexp", """
data = lambda n, i: ((wave(3) + 0.01 * i, wave(3) * 0.1, wave(3)),)
def program(n):
    x = wave(n) * 4.0
    def loss(params):
        means, scales, weights = params
        log_weights = weights - logsumexp(weights)
        terms = log_weights - scales - 0.5 * ((x[:, None] - means) / np.exp(scales)) ** 2
        return -np.sum(logsumexp(terms, axis=1))
    return grad(loss)
""", *_of_both("grad", _scipy("special import logsumexp"))),
    Program("gamma distribution, gammaln", """
data = lambda n, i: (wave(2) + 0.01 * i,)
def program(n):
    x = np.abs(wave(n)) + 0.5
    def loss(p):
        a, b = np.exp(p[0]), np.exp(p[1])
        return -np.sum(a * np.log(b) - sp.gammaln(a) + (a - 1.0) * np.log(x) - b * x)
    return value_and_grad(loss)
""", *_of_both("value_and_grad", ("import scipy.special as sp", "import autograd.scipy.special as sp"))),
    Program("negative binomial regression", """
data = lambda n, i: (wave(4) + 0.01 * i,)
def program(n):
    x, counts = wave(n, 3), np.array([k % 5 for k in range(n)])
    def loss(p):
        mean, r = np.exp(np.dot(x, p[:3])), np.exp(p[3])
        terms = gammaln(counts + r) - gammaln(r) + r * np.log(r / (r + mean)) + counts * np.log(mean / (r + mean))
        return -np.sum(terms)
    return grad(loss)
""", *_of_both("grad", _scipy("special import gammaln"))),
    Program("probit regression, erf", """
data = lambda n, i: (wave(3) + 0.01 * i,)
def program(n):
    x, y = wave(n, 3), np.array([k % 2 for k in range(n)])
    def loss(w):
        p = 0.5 * (1.0 + erf(np.dot(x, w) / np.sqrt(2.0)))
        return -np.sum(y * np.log(p) + (1 - y) * np.log(1.0 - p))
    return grad(loss)
""", *_of_both("grad", _scipy("special import erf"))),
    Program("normal regression, scipy.stats", """
data = lambda n, i: (wave(4) + 0.01 * i,)
def program(n):
    x, y = wave(n, 3), wave(n)
    def loss(p):
        return -np.sum(norm.logpdf(y, np.dot(x, p[:3]), np.exp(p[3])))
    return grad(loss)
""", *_of_both("grad", _scipy("stats import norm"))),
    Program("Poisson and Student, scipy.stats", """
data = lambda n, i: (wave(2) + 1.5 + 0.01 * i,)
def program(n):
    counts, y = np.array([k % 4 for k in range(n)]), wave(n)
    def loss(p):
        return -np.sum(poisson.logpmf(counts, p[0])) - np.sum(t.logpdf(y, 5.0, 0.1, p[1]))
    return grad(loss)
""", *_of_both("grad", _scipy("stats import poisson, t"))),
    Program("multivariate normal, scipy.stats", """
data = lambda n, i: (wave(3) + 0.01 * i,)
def program(n):
    x, cov = wave(n, 3), np.eye(3) + 0.1
    def loss(mean):
        return -np.sum(multivariate_normal.logpdf(x, mean, cov))
    return grad(loss)
""", *_of_both("grad", _scipy("stats import multivariate_normal"))),
    Program("Weibull with censoring, log of a survival", """
data = lambda n, i: (wave(2) + 0.01 * i,)
def program(n):
    times, seen = np.abs(wave(n)) + 0.5, np.array([k % 3 > 0 for k in range(n)])
    def log_hazard(p, t):
        return p[1] - p[0] + (np.exp(p[1]) - 1.0) * (np.log(t) - p[0])
    def loss(p):
        cumulative = (times / np.exp(p[0])) ** np.exp(p[1])
        return np.sum(cumulative) - np.sum(log_hazard(p, times[seen]))
    return value_and_grad(loss)
""", *_VALUE),
    Program("Cox regression, cumsum", """
data = lambda n, i: (wave(3) + 0.01 * i,)
def program(n):
    x = wave(n, 3)
    def loss(b):
        eta = np.dot(x, b)
        return -np.sum(eta - np.log(np.cumsum(np.exp(eta))))
    return grad(loss)
""", *_GRAD),
    # -- linear algebra
    Program("Gaussian process, solve and slogdet", """
data = lambda n, i: (wave(3) + 0.01 * i,)
def program(n):
    x, y = wave(n, 2), wave(n)
    def loss(p):
        scale, length, noise = np.exp(p)
        squares = np.sum((x[:, None] - x[None, :]) ** 2, axis=2)
        k = scale * np.exp(-0.5 * squares / length) + noise * np.eye(n)
        return 0.5 * np.dot(y, np.linalg.solve(k, y)) + 0.5 * np.linalg.slogdet(k)[1]
    return value_and_grad(loss)
""", *_VALUE),
    Program("Gaussian process, cholesky", """
data = lambda n, i: (wave(2) + 0.01 * i,)
def program(n):
    x, y = wave(n), wave(n)
    def loss(p):
        k = np.exp(p[0]) * np.exp(-((x[:, None] - x) ** 2)) + np.exp(p[1]) * np.eye(n)
        factor = np.linalg.cholesky(k)
        z = solve_triangular(factor, y, lower=True)
        return 0.5 * np.sum(z**2) + np.sum(np.log(np.diag(factor)))
    return grad(loss)
""", *_of_both("grad", _scipy("linalg import solve_triangular"))),
    Program("eigenvalues, inverse, determinant", """
data = lambda n, i: (wave(n, n) + 0.01 * i,)
def program(n):
    def f(a):
        s = a + a.T + n * np.eye(n)
        return np.sum(np.linalg.eigh(s)[0] ** 2) + np.trace(np.linalg.inv(s)) + np.log(np.linalg.det(s))
    return grad(f)
""", *_GRAD, size=6),
    Program("Kalman filter, 12 steps", """
data = lambda n, i: (wave(2) - 1.0 + 0.01 * i,)
def program(n):
    a, h = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    seen = wave(n)
    def loss(p):
        q, r = np.exp(p[0]) * np.eye(2), np.exp(p[1])
        m, v, total = np.zeros(2), np.eye(2), 0.0
        for y in seen:
            m, v = np.dot(a, m), np.dot(np.dot(a, v), a.T) + q
            s = np.dot(np.dot(h, v), h.T)[0, 0] + r
            gain = np.dot(v, h.T)[:, 0] / s
            error = y - m[0]
            total = total + 0.5 * np.log(s) + 0.5 * error**2 / s
            m, v = m + gain * error, v - gain[:, None] * np.dot(h, v)
        return total
    return grad(loss)
""", *_GRAD, size=12),
    # -- differential equations
    Program("predator and prey, Euler's steps on a list", """
data = lambda n, i: (wave(4) + 1.0 + 0.01 * i,)
def program(n):
    def f(p):
        x, y = 2.0, 1.0
        for _ in range(n):
            x, y = x + 0.05 * (p[0] * x - p[1] * x * y), y + 0.05 * (p[2] * x * y - p[3] * y)
        return x**2 + y**2
    return grad(f)
""", *_GRAD),
    Program("heat, finite differences", """
data = lambda n, i: (wave(n) + 0.01 * i,)
def program(n):
    def f(u):
        for _ in range(10):
            u = u + 0.2 * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1))
        return np.sum(u**2)
    return grad(f)
""", *_GRAD),
    # -- more than a gradient
    Program("Hessian of a logistic regression", """
data = lambda n, i: (wave(4) + 0.01 * i,)
def program(n):
    x = wave(n, 4)
    def loss(w):
        return np.sum(np.log(1.0 + np.exp(np.dot(x, w))))
    return hessian(loss)
""", *_of_both("hessian")),
    Program("Jacobian", """
data = lambda n, i: (wave(5) + 0.01 * i,)
def program(n):
    w = wave(n, 5)
    def f(x):
        return np.tanh(np.dot(w, x)) * np.sum(x)
    return jacobian(f)
""", *_of_both("jacobian")),
    Program("product of a Hessian and a vector", """
data = lambda n, i: (wave(n) + 0.01 * i, wave(n))
def program(n):
    def f(x):
        return np.sum(x[1:] ** 2 * np.exp(-x[:-1])) + np.sum(np.sin(x))
    return second(f)
""", "import numpy as np\nfrom funcad import hvp\nsecond = lambda f: lambda x, v: hvp(f, (x,), (v,))",
    "import autograd.numpy as np\nfrom autograd import hessian_vector_product as second"),
    Program("forward mode: a directional derivative", """
data = lambda n, i: (wave(n) + 0.01 * i, wave(n))
def program(n):
    def f(x):
        return np.sin(x) * np.sum(x**2)
    return directional(f)
""", "import numpy as np\nfrom funcad import jvp\ndirectional = lambda f: lambda x, v: jvp(f, (x,), (v,))[1]",
    "import autograd.numpy as np\nfrom autograd import make_jvp\ndirectional = lambda f: lambda x, v: make_jvp(f)(x)(v)[1]"),
    Program("a rule of one's own", """
data = lambda n, i: (wave(n) + 0.01 * i,)
def program(n):
    def f(x):
        return np.sum(softplus(x) ** 2) + np.sum(softplus(-x))
    return grad(f)
""", """
import numpy as np
from funcad import custom_vjp, grad
@custom_vjp
def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0)
softplus.defvjp(lambda x: (softplus(x), x), lambda x, g: (g / (1.0 + np.exp(-x)),))
""", """
import autograd.numpy as np
from autograd import grad
from autograd.extend import defvjp, primitive
@primitive
def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0)
defvjp(softplus, lambda ans, x: lambda g: g / (1.0 + np.exp(-x)))
"""),
    Program("minimize of SciPy, BFGS", """
data = lambda n, i: (wave(4) + 0.01 * i,)
def program(n):
    x, y = wave(n, 4), wave(n)
    def loss(w):
        return np.sum((np.tanh(np.dot(x, w)) - y) ** 2) + 0.1 * np.dot(w, w)
    return lambda start: minimize(value_and_grad(loss), start, jac=True, method="BFGS", options={"maxiter": 8}).x
""", *_of_both("value_and_grad", ("from scipy.optimize import minimize",) * 2)),
]  # fmt: skip
