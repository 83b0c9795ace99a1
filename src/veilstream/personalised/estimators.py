"""Private logistic regression and support vector machines with scikit-learn's estimator interface.

scikit-learn is not needed: the classes speak its language (``get_params``, ``set_params``, ``fit``, ``predict``, ...).
"""

from __future__ import annotations

import inspect
from fractions import Fraction
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilstream.errors import InvalidInput
from veilstream.meter import NoiseSource
from veilstream.personalised.accounts import PersonalAccounts
from veilstream.personalised.ensemble import undominated
from veilstream.personalised.meter import PersonalMeter, Perturbation
from veilstream.personalised.partition import Group, at_least, everybody, privacy_aware, risk_loss, utility_based
from veilstream.personalised.roster import UNIT, Roster
from veilstream.rationals import Exact, rational
from veilstream.scores.empirical_risk import WEIGHT, HuberHinge, Logistic, Loss, SealedExamples

Floats: TypeAlias = NDArray[np.float64]
Strategy: TypeAlias = Literal["weighted", "minimum", "threshold", "sampling", "waste", "utility"]
STRATEGIES = ("weighted", "minimum", "threshold", "sampling", "waste", "utility")


class _LinearClassifier:
    """A linear classifier of two classes whose coefficients are private for everybody at their own epsilon."""

    classes_: NDArray[Any]
    coef_: Floats
    intercept_: Floats
    weights_: Floats
    groups_: list[Group]
    n_features_in_: int
    accounts_: PersonalAccounts
    perturbation: Perturbation

    def __init__(
        self,
        epsilon: Exact = 1,
        *,
        strategy: Strategy = "weighted",
        perturbation: Perturbation = "objective",
        regularisation: float = 0.01,
        threshold: Exact | None = None,
        minimum: int = 500,
        data_norm: float = 1.0,
        clip: bool = False,
        fit_intercept: bool = True,
    ) -> None:
        self.epsilon = epsilon
        self.strategy = strategy
        self.perturbation = perturbation
        self.regularisation = regularisation
        self.threshold = threshold
        self.minimum = minimum
        self.data_norm = data_norm
        self.clip = clip
        self.fit_intercept = fit_intercept

    def _loss(self) -> Loss:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike, epsilon: ArrayLike | None = None) -> Self:  # noqa: N803
        """Fit with the secure source; ``epsilon`` gives the budget of each row, else all have that of the constructor.

        Every row is a person. ``accounts_`` afterwards shows what each level spent.
        """
        return self._fit(X, y, epsilon, None)

    def fit_simulated(self, X: ArrayLike, y: ArrayLike, epsilon: ArrayLike | None, noise: NoiseSource) -> Self:  # noqa: N803
        """The same with a source of randomness of your own: for experiments, never for a release."""
        return self._fit(X, y, epsilon, noise)

    def _fit(self, given: ArrayLike, labels: ArrayLike, epsilon: ArrayLike | None, noise: NoiseSource | None) -> Self:
        self._check()
        rows = self._features(given)
        self.n_features_in_ = int(rows.shape[1]) - int(self.fit_intercept)
        signs = self._signs(labels)
        people = int(rows.shape[0])
        roster = Roster.of_budgets([self.epsilon] * people if epsilon is None else epsilon)
        examples = SealedExamples(rows, signs, roster.level_of(np.arange(people)))
        self.accounts_ = PersonalAccounts(roster)
        vectors = self._measure(examples, roster, PersonalMeter(self.accounts_, noise))
        constant = vectors[:, -1:] if self.fit_intercept else np.zeros((len(vectors), 1))
        shrink = float(self.data_norm)
        self.coef_ = (vectors[:, :-1] if self.fit_intercept else vectors) / shrink
        self.intercept_ = constant[:, 0]
        return self

    def _measure(self, x: SealedExamples, roster: Roster, meter: PersonalMeter) -> Floats:
        loss, strength, name = self._loss(), float(self.regularisation), type(self).__name__
        self.groups_ = []
        self.weights_ = np.ones(1)
        if self.strategy == "sampling":
            mean = Fraction(int((roster.units * roster.sizes).sum()) // roster.people, UNIT)
            limit = mean if self.threshold is None else rational(self.threshold, "threshold")
            found = meter.sampled_classifier(x, limit, loss, strength, name, perturbation=self.perturbation)
            return found[None]
        if self.strategy == "weighted":
            cap = int(roster.units[-1]) if self.threshold is None else int(rational(self.threshold, "threshold") * UNIT)
            capped = np.minimum(roster.units, max(cap, 1))
            weights = capped * WEIGHT // int(capped[-1])
            highest = Fraction(int(capped[-1]), UNIT)
            found = meter.classifier(x, weights, highest, loss, strength, name, perturbation=self.perturbation)
            return found[None]
        groups = self._groups(roster, x.dimensions)
        self.groups_ = [groups[at] for at in undominated(groups)]
        bound = risk_loss(x.dimensions, strength, float(loss.curvature))
        sizes = np.asarray([group.people for group in self.groups_], dtype=np.float64)
        self.weights_ = 1 / bound(sizes, np.asarray([float(group.epsilon) for group in self.groups_]))
        vectors: list[Floats] = []
        for number, group in enumerate(self.groups_):
            weights = np.zeros(roster.levels, dtype=np.int64)
            weights[group.levels] = WEIGHT
            purpose = f"{name}, group {number + 1}"
            vectors.append(
                meter.classifier(x, weights, group.epsilon, loss, strength, purpose, perturbation=self.perturbation)
            )
        return np.stack(vectors)

    def _groups(self, roster: Roster, dimensions: int) -> list[Group]:
        smallest = min(self.minimum, roster.people)
        match self.strategy:
            case "minimum":
                return everybody(roster)
            case "threshold":
                if self.threshold is None:
                    raise InvalidInput("threshold: missing; strategy='threshold' needs one; nothing was released")
                return at_least(roster, self.threshold)
            case "waste":
                return privacy_aware(roster, minimum=smallest)
            case _:
                loss = risk_loss(dimensions, float(self.regularisation), float(self._loss().curvature))
                return utility_based(roster, loss, smallest)

    def _check(self) -> None:
        if self.strategy not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise InvalidInput(f"strategy {self.strategy!r}: one of {known}; nothing was released")
        if self.perturbation not in ("objective", "output"):
            raise InvalidInput(f"perturbation {self.perturbation!r}: 'objective' or 'output'; nothing was released")
        if not 0 < float(self.data_norm) < float("inf"):
            raise InvalidInput(f"data_norm {self.data_norm!r}: it must be above 0; nothing was released")

    def _features(self, given: ArrayLike) -> Floats:
        """Rows within the unit ball; with an intercept they share it with a constant 1/√2."""
        rows: Floats = np.asarray(given, dtype=np.float64)
        if rows.ndim != 2 or not rows.size:
            raise InvalidInput(f"features of shape {rows.shape}: people × dimensions is needed; nothing was released")
        if not np.isfinite(rows).all():
            raise InvalidInput("features: a value is missing or infinite; nothing was released")
        rows = rows / float(self.data_norm)
        norms = np.sqrt((rows**2).sum(axis=1))
        if (norms > 1).any() and not self.clip:
            raise InvalidInput(
                f"features: a row has a norm above data_norm={self.data_norm}; give a larger public bound or "
                "clip=True; nothing was released"
            )
        rows = rows / np.maximum(norms, 1.0)[:, None]
        if self.fit_intercept:
            rows = np.hstack([rows, np.ones((rows.shape[0], 1))]) * np.sqrt(0.5)
        inside: Floats = rows * (1 - 2.0**-45)
        return inside

    def _signs(self, labels: ArrayLike) -> NDArray[np.int64]:
        target = np.asarray(labels)
        self.classes_ = np.unique(target)
        if self.classes_.size != 2:
            raise InvalidInput(f"labels of {self.classes_.size} classes: two are needed; nothing was released")
        return np.where(target == self.classes_[1], 1, -1)

    def _margins(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Classifiers × rows; the same scaling as in fit, so that clipping is the same."""
        if not hasattr(self, "coef_"):
            raise InvalidInput(f"{type(self).__name__}: not fitted yet; call fit first")
        vectors = self.coef_ * float(self.data_norm)
        if self.fit_intercept:
            vectors = np.hstack([vectors, self.intercept_[:, None]])
        rows = self._predictable(X)
        margins: Floats = vectors @ rows.T
        return margins

    def _predictable(self, X: ArrayLike) -> Floats:  # noqa: N803
        rows = np.asarray(X, dtype=np.float64) / float(self.data_norm)
        norms = np.maximum(np.sqrt((rows**2).sum(axis=1)), 1.0)
        rows = rows / norms[:, None]
        if self.fit_intercept:
            rows = np.hstack([rows, np.ones((rows.shape[0], 1))]) * np.sqrt(0.5)
        return np.asarray(rows, dtype=np.float64)

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
        votes = np.where(self._margins(X) > 0, 1.0, -1.0)
        balance = self.weights_ @ votes if len(votes) > 1 else votes[0]
        undecided = np.abs(balance) < 1e-12
        second = np.where(undecided, self.decision_function(X) > 0, balance > 0)
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
                raise InvalidInput(f"parameter {name!r}: {type(self).__name__} has {', '.join(known)}; nothing was set")
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
        return f"{type(self).__name__}(strategy={self.strategy!r}, regularisation={self.regularisation})"


class PrivateLogisticRegression(_LinearClassifier):
    """Logistic regression, ε_i-private for every row i.

    ``strategy``: "weighted" (everybody's loss counts in proportion to their epsilon, or to ``threshold`` if that is
    less; one model), "minimum", "threshold", "sampling" (of Jorgensen et al.), "waste" or "utility" (a model per group
    of similar budgets, majority vote). The two classes that occur in ``y`` are taken to be public.
    ``perturbation``: "objective" or "output", of Chaudhuri, Monteleoni, Sarwate: Differentially private empirical risk
    minimization, JMLR 2011, Algorithms 2 and 1. Rows must have norm at most ``data_norm``, a *public* bound.

    Corrected: Laplace coordinates on a grid in place of a vector with a gamma-distributed norm (which is not exact in
    floating point; √2 times the noise), and the solver's inexactness is part of the proof: see
    ``veilstream.scores.empirical_risk``. The regularisation is raised where objective perturbation asks for it.

    >>> rows = np.linspace(-1, 1, 2000)[:, None]
    >>> model = PrivateLogisticRegression().fit(rows, rows[:, 0] > 0, epsilon=np.arange(2000) % 2 * 3 + 1)
    >>> model.score(rows, rows[:, 0] > 0) > 0.8, [str(left) for left in model.accounts_.left()]
    (True, ['0', '0'])
    """

    def _loss(self) -> Loss:
        return Logistic()


class PrivateSVM(_LinearClassifier):
    """A linear support vector machine with the Huber hinge loss (rounded over 1 ± 1/2), ε_i-private for every row i.

    Parameters as for ``PrivateLogisticRegression``.

    >>> rows = np.linspace(-1, 1, 2000)[:, None]
    >>> PrivateSVM(epsilon=5, perturbation="output").fit(rows, rows[:, 0] > 0).score(rows, rows[:, 0] > 0) > 0.8
    True
    """

    def _loss(self) -> Loss:
        return HuberHinge()
