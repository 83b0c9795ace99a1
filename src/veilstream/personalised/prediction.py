"""What a fitted linear classifier says of new rows, in scikit-learn's words."""

from __future__ import annotations

import inspect
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilstream.errors import InvalidInputError
from veilstream.personalised.ensemble import majority

Floats: TypeAlias = NDArray[np.float64]


class LinearPredictor:
    """One or several linear classifiers of two classes, with the parameters by which rows are scaled."""

    classes_: NDArray[Any]
    coef_: Floats
    intercept_: Floats
    weights_: Floats
    data_norm: float
    fit_intercept: bool

    def _scaled(self, rows: Floats) -> Floats:
        """Rows over ``data_norm``, clipped to the unit ball; with an intercept they share it with a constant 1/√2."""
        scaled = rows / float(self.data_norm)
        inside: Floats = scaled / np.maximum(np.sqrt((scaled**2).sum(axis=1)), 1.0)[:, None]
        if self.fit_intercept:
            inside = np.hstack([inside, np.ones((inside.shape[0], 1))]) * np.sqrt(0.5)
        return inside

    def _margins(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Classifiers × rows; the same scaling as in fit, so that clipping is the same."""
        if not hasattr(self, "coef_"):
            raise InvalidInputError(f"{type(self).__name__}: not fitted yet; call fit first")
        vectors = self.coef_ * float(self.data_norm)
        if self.fit_intercept:
            vectors = np.hstack([vectors, self.intercept_[:, None]])
        margins: Floats = vectors @ self._scaled(np.asarray(X, dtype=np.float64)).T
        return margins

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Above 0 for the second class: the margin, or the mean of the groups' margins over the size of each vector."""
        margins = self._margins(X)
        if len(margins) == 1:
            return np.asarray(margins[0], dtype=np.float64)
        sizes = np.sqrt(((self.coef_ * float(self.data_norm)) ** 2).sum(axis=1) + self.intercept_**2)
        share = self.weights_ / self.weights_.sum()
        mean: Floats = (share / np.maximum(sizes, 1e-300)) @ margins
        return mean

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """The class of each row; of several groups the weighted majority, ties by ``decision_function``."""
        share = majority((self._margins(X) > 0).astype(np.int64), self.weights_)
        undecided = np.abs(share - 0.5) < 1e-12
        second = np.where(undecided, self.decision_function(X) > 0, share > 0.5)
        chosen: NDArray[Any] = self.classes_[second.astype(np.int64)]
        return chosen

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Mean over groups of 1/(1 + e^−margin) for the second class; for the support vector machine not calibrated."""
        from scipy.special import expit

        share = self.weights_ / self.weights_.sum()
        second = share @ np.asarray(expit(self._margins(X)), dtype=np.float64)
        return np.asarray(np.stack([1 - second, second], axis=1), dtype=np.float64)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:  # noqa: N803
        """The share of rows whose class is predicted right."""
        right: NDArray[np.bool_] = np.equal(self.predict(X), np.asarray(y))
        return float(right.mean())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **parameters: Any) -> Self:
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise InvalidInputError(
                    name="parameter", value=name, limit=f"{type(self).__name__} has {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of a classifier; only scikit-learn calls it."""
        from importlib import import_module

        utils = import_module("sklearn.utils")
        return utils.Tags(
            estimator_type="classifier",
            target_tags=utils.TargetTags(required=True),
            classifier_tags=utils.ClassifierTags(multi_class=False),
            input_tags=utils.InputTags(),
        )

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({settings})"
