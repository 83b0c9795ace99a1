"""Private logistic regression and support vector machines with scikit-learn's estimator interface.

scikit-learn is not needed: the classes speak its language (``get_params``, ``set_params``, ``fit``, ``predict``, ...).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilstream.errors import InvalidInputError
from veilstream.personalised.accounts import PersonalAccounts
from veilstream.personalised.ensemble import undominated
from veilstream.personalised.meter import PersonalMeter, Perturbation, SimulatedMeter
from veilstream.personalised.partition import Group, at_least, everybody, privacy_aware, risk_loss, utility_based
from veilstream.personalised.prediction import LinearPredictor
from veilstream.personalised.recorded import LedgerAccounts
from veilstream.personalised.roster import UNIT, Roster
from veilstream.privacy.rationals import Exact, rational
from veilstream.trusted.statistics.empirical_risk import WEIGHT, SealedExamples
from veilstream.trusted.statistics.losses import HuberHinge, Logistic, Loss
from veilstream.values.values import Values

Floats: TypeAlias = NDArray[np.float64]
Strategy: TypeAlias = Literal["weighted", "minimum", "threshold", "sampling", "waste", "utility"]
STRATEGIES = ("weighted", "minimum", "threshold", "sampling", "waste", "utility")


class _LinearClassifier(LinearPredictor, ABC):
    """A linear classifier of two classes whose coefficients are private for everybody at their own epsilon."""

    groups_: list[Group]
    n_features_in_: int
    accounts_: PersonalAccounts | LedgerAccounts
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

    @abstractmethod
    def _loss(self) -> Loss: ...

    def fit(
        self,
        X: ArrayLike,  # noqa: N803
        y: ArrayLike,
        epsilon: ArrayLike | None = None,
        *,
        accounts: LedgerAccounts | None = None,
        people: ArrayLike | Sequence[Any] | None = None,
        of: str = "",
    ) -> Self:
        """Fit with the secure source.

        Every row is a person; ``epsilon`` gives the budget of each, else all have that of the constructor, and it is
        spent on this model alone. With ``accounts`` people pay on a ledger, from what they have left there: ``people``
        are the ids of the rows on its roster (0, 1, 2, ... by default), not all of whom need have a row. The same
        parameters ``of`` the same data are then fitted once and given again. ``accounts_`` shows what was spent.
        """
        if accounts is None:
            if people is not None or of:
                raise InvalidInputError("people, of: they name people and data on a ledger, give accounts")
            roster = self._roster(X, epsilon)
            self.accounts_ = PersonalAccounts(roster)
            return self._fit(X, y, roster, None, PersonalMeter(self.accounts_))
        if epsilon is not None:
            raise InvalidInputError("epsilon: the roster of the accounts has the budgets")
        self.accounts_ = accounts
        return self._fit(X, y, accounts.roster, people, accounts, of)

    def fit_simulated(
        self,
        X: ArrayLike,  # noqa: N803
        y: ArrayLike,
        epsilon: ArrayLike | None,
        seed: int | tuple[int, ...],
    ) -> Self:
        """The same with repeatable noise: for experiments, never for a release."""
        roster = self._roster(X, epsilon)
        meter = SimulatedMeter(roster, seed)
        self.accounts_ = meter.accounts
        return self._fit(X, y, roster, None, meter)

    def _roster(self, rows: ArrayLike, epsilon: ArrayLike | None) -> Roster:
        return Roster.of_budgets([self.epsilon] * len(np.asarray(rows)) if epsilon is None else epsilon)

    def _fit(
        self,
        given: ArrayLike,
        labels: ArrayLike,
        roster: Roster,
        people: ArrayLike | Sequence[Any] | None,
        source: PersonalMeter | LedgerAccounts,
        of: str = "",
    ) -> Self:
        self._check()
        rows = self._features(given)
        self.n_features_in_ = int(rows.shape[1]) - int(self.fit_intercept)
        signs = self._signs(labels)
        levels = roster.level_of(np.arange(int(rows.shape[0])) if people is None else people)
        examples = SealedExamples(rows, signs, levels)
        self._plan(roster, examples.dimensions)
        if isinstance(source, PersonalMeter):
            flat = self._measure(examples, roster, source)
        else:
            settings = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items() if name != "epsilon")
            question = (
                f"{type(self).__name__}({settings}), {self.n_features_in_} features, {self.classes_.tolist()} {of}"
            )
            answer = source.release(
                question, lambda meter: Values(self._measure(examples, roster, meter), float("nan"))
            )
            flat = np.asarray(answer.values.numbers, dtype=np.float64)
        vectors = flat.reshape(-1, examples.dimensions)
        constant = vectors[:, -1:] if self.fit_intercept else np.zeros((len(vectors), 1))
        shrink = float(self.data_norm)
        self.coef_ = (vectors[:, :-1] if self.fit_intercept else vectors) / shrink
        self.intercept_ = constant[:, 0]
        return self

    def _plan(self, roster: Roster, dimensions: int) -> None:
        """Groups and their weights, from the public roster alone."""
        self.groups_ = []
        self.weights_ = np.ones(1)
        if self.strategy in ("sampling", "weighted"):
            return
        groups = self._groups(roster, dimensions)
        self.groups_ = [groups[at] for at in undominated(groups)]
        bound = risk_loss(dimensions, float(self.regularisation), float(self._loss().curvature))
        sizes = np.asarray([group.people for group in self.groups_], dtype=np.float64)
        self.weights_ = 1 / bound(sizes, np.asarray([float(group.epsilon) for group in self.groups_]))

    def _measure(self, x: SealedExamples, roster: Roster, meter: PersonalMeter) -> Floats:
        """The vectors of all models, one after the other."""
        loss, strength, name = self._loss(), float(self.regularisation), type(self).__name__
        if self.strategy == "sampling":
            mean = Fraction(int((roster.units * roster.sizes).sum()) // roster.people, UNIT)
            limit = mean if self.threshold is None else rational(self.threshold, "threshold")
            return meter.sampled_classifier(x, limit, loss, strength, name, perturbation=self.perturbation)
        if self.strategy == "weighted":
            cap = int(roster.units[-1]) if self.threshold is None else int(rational(self.threshold, "threshold") * UNIT)
            capped = np.minimum(roster.units, max(cap, 1))
            weights = capped * WEIGHT // int(capped[-1])
            highest = Fraction(int(capped[-1]), UNIT)
            return meter.classifier(x, weights, highest, loss, strength, name, perturbation=self.perturbation)
        vectors: list[Floats] = []
        for number, group in enumerate(self.groups_):
            weights = np.zeros(roster.levels, dtype=np.int64)
            weights[group.levels] = WEIGHT
            purpose = f"{name}, group {number + 1}"
            vectors.append(
                meter.classifier(x, weights, group.epsilon, loss, strength, purpose, perturbation=self.perturbation)
            )
        return np.concatenate(vectors)

    def _groups(self, roster: Roster, dimensions: int) -> list[Group]:
        smallest = min(self.minimum, roster.people)
        match self.strategy:
            case "minimum":
                return everybody(roster)
            case "threshold":
                if self.threshold is None:
                    raise InvalidInputError("threshold: missing; strategy='threshold' needs one")
                return at_least(roster, self.threshold)
            case "waste":
                return privacy_aware(roster, minimum=smallest)
            case _:
                loss = risk_loss(dimensions, float(self.regularisation), float(self._loss().curvature))
                return utility_based(roster, loss, smallest)

    def _check(self) -> None:
        if self.strategy not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise InvalidInputError(name="strategy", value=self.strategy, limit=f"one of {known}")
        if self.perturbation not in ("objective", "output"):
            raise InvalidInputError(name="perturbation", value=self.perturbation, limit="'objective' or 'output'")
        if not 0 < float(self.data_norm) < float("inf"):
            raise InvalidInputError(name="data_norm", value=self.data_norm, limit="it must be above 0")

    def _features(self, given: ArrayLike) -> Floats:
        """Rows strictly within the unit ball, also after rounding."""
        rows: Floats = np.asarray(given, dtype=np.float64)
        if rows.ndim != 2 or not rows.size:
            raise InvalidInputError(f"features of shape {rows.shape}: people × dimensions is needed")
        if not np.isfinite(rows).all():
            raise InvalidInputError("features: a value is missing or infinite")
        if not self.clip and (np.sqrt(((rows / float(self.data_norm)) ** 2).sum(axis=1)) > 1).any():
            raise InvalidInputError(
                f"features: a row has a norm above data_norm={self.data_norm}; give a larger public bound or clip=True"
            )
        inside: Floats = self._scaled(rows) * (1 - 2.0**-45)
        return inside

    def _signs(self, labels: ArrayLike) -> NDArray[np.int64]:
        target = np.asarray(labels)
        self.classes_ = np.unique(target)
        if self.classes_.size != 2:
            raise InvalidInputError(f"labels of {self.classes_.size} classes: two are needed")
        return np.where(target == self.classes_[1], 1, -1)


class PrivateLogisticRegression(_LinearClassifier):
    """Logistic regression, ε_i-private for every row i.

    ``strategy``: "weighted" (everybody's loss counts in proportion to their epsilon, or to ``threshold`` if that is
    less; one model), "minimum", "threshold", "sampling" (of Jorgensen et al.), "waste" or "utility" (a model per group
    of similar budgets, majority vote). The two classes that occur in ``y`` are taken to be public.
    ``perturbation``: "objective" or "output", of Chaudhuri, Monteleoni, Sarwate: Differentially private empirical risk
    minimization, JMLR 2011, Algorithms 2 and 1. Rows must have norm at most ``data_norm``, a *public* bound.

    Corrected: Laplace coordinates on a grid in place of a vector with a gamma-distributed norm (which is not exact in
    floating point; √2 times the noise), and the solver's inexactness is part of the proof: see
    ``veilstream.trusted.statistics.empirical_risk``. The regularisation is raised where objective perturbation asks for
    it.

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
