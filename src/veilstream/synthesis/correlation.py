"""From noisy coefficients to a correlation matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SMALLEST_EIGENVALUE = 1e-6


def matrix_of(upper: NDArray[np.float64], attributes: int) -> NDArray[np.float64]:
    """The symmetric matrix with ones on the diagonal and ``upper`` above it, row by row.

    >>> matrix_of(np.array([0.5]), 2).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    matrix = np.eye(attributes)
    rows, columns = np.triu_indices(attributes, k=1)
    matrix[rows, columns] = matrix[columns, rows] = upper
    return matrix


def upper_of(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The entries above the diagonal, row by row."""
    return matrix[np.triu_indices(len(matrix), k=1)]


def repaired(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A positive definite correlation matrix near a symmetric one with ones on its diagonal.

    Eigenvalues below 10⁻⁶ are raised to it and the result is scaled back to a unit diagonal (Rousseeuw and
    Molenberghs 1993); a matrix that is positive definite already stays as it is.

    >>> fixed = repaired(np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]))
    >>> bool(np.linalg.eigvalsh(fixed).min() > 0), fixed.diagonal().tolist()
    (True, [1.0, 1.0, 1.0])
    """
    values, vectors = np.linalg.eigh(matrix)
    if values.min() >= SMALLEST_EIGENVALUE:
        return matrix
    raised = (vectors * np.maximum(values, SMALLEST_EIGENVALUE)) @ vectors.T
    scale = 1 / np.sqrt(raised.diagonal())
    result = raised * scale[:, None] * scale[None, :]
    np.fill_diagonal(result, 1.0)
    return np.asarray((result + result.T) / 2, dtype=np.float64)
