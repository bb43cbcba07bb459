"""Solve Bayesian linear regression, by linear algebra that is safe to batch on a CPU.

jaxlib splits a batch of LAPACK calls over its thread pool and waits. If the threads of the pool make such a call
themselves, all of them can wait for each other. (Seen with jaxlib 0.10.2: a fit hung with every pool thread inside
`lapack_dpotrf_ffi`. XLA's FFT has the same flaw, see PyAutoLabs/PyAutoFit issue 1530.) So a CPU works on one matrix
after the other, which costs nothing there. Other devices work on all at once.
"""

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

Solution = tuple[Float[Array, ""], Float[Array, ""], Float[Array, " k"]]


def _solve(gram: Float[Array, "k k"], moment: Float[Array, " k"], xi: Float[Array, " k"]) -> Solution:
    factor = jnp.linalg.cholesky(gram)
    projected = solve_triangular(factor, moment, lower=True)
    last = solve_triangular(factor, projected + xi, lower=True, trans=1)
    return jnp.sum(jnp.log(jnp.diag(factor))), jnp.sum(projected**2), last


def _pull_back(
    gram: Float[Array, "k k"], moment: Float[Array, " k"], xi: Float[Array, " k"], cotangent: Solution
) -> tuple[Float[Array, "k k"], Float[Array, " k"], Float[Array, " k"]]:
    """Return the reverse derivative of `_solve`, with a third of the work of the derivative that JAX finds.

    It needs one inverse of L and two products. With G = L^-1: d(half log|A|) = tr(A^-1 dA) / 2, d(A^-1) = -A^-1 dA
    A^-1, and dL = L P(G dA G^T), where P keeps the lower triangle and half of the diagonal.
    """
    of_determinant, of_explained, of_last = cotangent
    inverse = solve_triangular(jnp.linalg.cholesky(gram), jnp.eye(gram.shape[0], dtype=gram.dtype), lower=True)
    mean = inverse.T @ (inverse @ moment)
    pulled = inverse @ of_last
    lower = jnp.tril(jnp.outer(xi, pulled))
    middle = lower - 0.5 * jnp.diag(jnp.diag(lower))
    middle = 0.5 * of_determinant * jnp.eye(gram.shape[0], dtype=gram.dtype) - 0.5 * (middle + middle.T)
    along = inverse.T @ pulled + of_explained * mean
    cross = jnp.outer(along, mean)
    of_gram = inverse.T @ middle @ inverse - 0.5 * (cross + cross.T)
    return of_gram, inverse.T @ pulled + 2.0 * of_explained * mean, pulled


_solve_in_turn = sequential_vmap(_solve)
_pull_back_in_turn = sequential_vmap(_pull_back)


@jax.custom_vjp
def posterior_weights(gram: Float[Array, "k k"], moment: Float[Array, " k"], xi: Float[Array, " k"]) -> Solution:
    """Return half log |A|, m^T A^-1 m and A^-1 m + L^-T xi, where A = L L^T.

    The last is a draw of the weights if xi is standard normal.
    """
    return jax.lax.platform_dependent(gram, moment, xi, cpu=_solve_in_turn, default=_solve)


def _forward(
    gram: Float[Array, "k k"], moment: Float[Array, " k"], xi: Float[Array, " k"]
) -> tuple[Solution, tuple[Array, Array, Array]]:
    return posterior_weights(gram, moment, xi), (gram, moment, xi)


def _backward(
    saved: tuple[Array, Array, Array], cotangent: Solution
) -> tuple[Float[Array, "k k"], Float[Array, " k"], Float[Array, " k"]]:
    return jax.lax.platform_dependent(*saved, cotangent, cpu=_pull_back_in_turn, default=_pull_back)


posterior_weights.defvjp(_forward, _backward)
