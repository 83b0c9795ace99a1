"""Keep publishing statistics about people from a changing dataset, under differential privacy.

>>> import numpy as np, veilstream as vs
>>> publisher = vs.Publisher(
...     bins=4, guarantee=vs.Guarantee(epsilon="1", w=24), mechanism=vs.STREAMS["uniform"]()
... )
>>> release = publisher.feed(np.array([310, 275, 12, 0]), t=0)
>>> low, high = release.interval(0.95)
>>> release.spent, bool((low < release.values).all())
(Fraction(1, 24), True)

Every public name is loaded when it is first used, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from veilstream import noise
    from veilstream.client import Client
    from veilstream.data import Calendar, Categories, Domain, Edges, Grid
    from veilstream.errors import (
        BatchConflictError,
        BudgetExceededError,
        ChargeError,
        CheckFailedError,
        ClockJumpError,
        EngineError,
        InvalidBudgetError,
        InvalidDomainError,
        InvalidInputError,
        LedgerBusyError,
        LedgerError,
        LedgerFullError,
        LedgerMismatchError,
        LedgerVersionError,
        MissingExtraError,
        OutOfOrderError,
        OutputError,
        SealedAccessError,
        SpoolError,
        SpoolFullError,
        StaleBatchError,
        UnknownValueError,
        UnreadableFileError,
        VeilstreamError,
        WorkerError,
    )
    from veilstream.jobs.advice import advise
    from veilstream.jobs.call import publish
    from veilstream.live import StreamDefinition, open_async_stream, open_stream
    from veilstream.mechanisms.histograms import (
        DAWA,
        EFPA,
        HB,
        HISTOGRAMS,
        PHP,
        PSD,
        AdaptiveGrid,
        Auto,
        Barak,
        DPCube,
        FilterPriority,
        Gaussian,
        Geometric,
        Haar,
        Marginals,
        Matrix,
        NoiseFirst,
        Privelet,
        StructureFirst,
    )
    from veilstream.mechanisms.streams import (
        DSAT,
        DSFT,
        STREAMS,
        BudgetAbsorption,
        BudgetDistribution,
        Fast,
        FixedRate,
        ModelBased,
        MovingSum,
        RetroactiveGrouping,
        RunningTotal,
        Sample,
        Scheduled,
        SlidingWindow,
        TimeUnit,
        Uniform,
    )
    from veilstream.privacy.charge import Charge, Span
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.privacy.population import Membership, Population
    from veilstream.release.publisher import Publisher
    from veilstream.storage.ledger import Ledger
    from veilstream.testing.simulation import simulate, simulate_many
    from veilstream.values.release import Release
    from veilstream.values.values import Values

__version__ = "0.1.0"

_EXPORTS: Final = {
    "veilstream": "noise",
    "veilstream.client": "Client",
    "veilstream.data": "Calendar Categories Domain Edges Grid",
    "veilstream.errors": (
        "BatchConflictError BudgetExceededError ChargeError CheckFailedError ClockJumpError EngineError "
        "InvalidBudgetError InvalidDomainError InvalidInputError LedgerBusyError LedgerError LedgerFullError "
        "LedgerMismatchError LedgerVersionError MissingExtraError OutOfOrderError OutputError SealedAccessError "
        "SpoolError SpoolFullError StaleBatchError UnknownValueError UnreadableFileError VeilstreamError WorkerError"
    ),
    "veilstream.jobs.advice": "advise",
    "veilstream.jobs.call": "publish",
    "veilstream.live": "StreamDefinition open_async_stream open_stream",
    "veilstream.mechanisms.histograms": (
        "DAWA EFPA HB HISTOGRAMS PHP PSD AdaptiveGrid Auto Barak DPCube FilterPriority Gaussian Geometric Haar "
        "Marginals Matrix NoiseFirst Privelet StructureFirst"
    ),
    "veilstream.mechanisms.streams": (
        "DSAT DSFT STREAMS BudgetAbsorption BudgetDistribution Fast FixedRate ModelBased MovingSum RetroactiveGrouping "
        "RunningTotal Sample Scheduled SlidingWindow TimeUnit Uniform"
    ),
    "veilstream.privacy.charge": "Charge Span",
    "veilstream.privacy.guarantee": "Guarantee",
    "veilstream.privacy.population": "Membership Population",
    "veilstream.release.publisher": "Publisher",
    "veilstream.storage.ledger": "Ledger",
    "veilstream.testing.simulation": "simulate simulate_many",
    "veilstream.values.release": "Release",
    "veilstream.values.values": "Values",
}
"""The public names of each module; a test compares them with the imports above and with ``__all__``."""
_HOME: Final = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = [
    "DAWA",
    "DSAT",
    "DSFT",
    "EFPA",
    "HB",
    "HISTOGRAMS",
    "PHP",
    "PSD",
    "STREAMS",
    "AdaptiveGrid",
    "Auto",
    "Barak",
    "BatchConflictError",
    "BudgetAbsorption",
    "BudgetDistribution",
    "BudgetExceededError",
    "Calendar",
    "Categories",
    "Charge",
    "ChargeError",
    "CheckFailedError",
    "Client",
    "ClockJumpError",
    "DPCube",
    "Domain",
    "Edges",
    "EngineError",
    "Fast",
    "FilterPriority",
    "FixedRate",
    "Gaussian",
    "Geometric",
    "Grid",
    "Guarantee",
    "Haar",
    "InvalidBudgetError",
    "InvalidDomainError",
    "InvalidInputError",
    "Ledger",
    "LedgerBusyError",
    "LedgerError",
    "LedgerFullError",
    "LedgerMismatchError",
    "LedgerVersionError",
    "Marginals",
    "Matrix",
    "Membership",
    "MissingExtraError",
    "ModelBased",
    "MovingSum",
    "NoiseFirst",
    "OutOfOrderError",
    "OutputError",
    "Population",
    "Privelet",
    "Publisher",
    "Release",
    "RetroactiveGrouping",
    "RunningTotal",
    "Sample",
    "Scheduled",
    "SealedAccessError",
    "SlidingWindow",
    "Span",
    "SpoolError",
    "SpoolFullError",
    "StaleBatchError",
    "StreamDefinition",
    "StructureFirst",
    "TimeUnit",
    "Uniform",
    "UnknownValueError",
    "UnreadableFileError",
    "Values",
    "VeilstreamError",
    "WorkerError",
    "__version__",
    "advise",
    "noise",
    "open_async_stream",
    "open_stream",
    "publish",
    "simulate",
    "simulate_many",
]

if not TYPE_CHECKING:  # Checkers read the imports above; a __getattr__ would make every misspelt name pass.

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module 'veilstream' has no attribute {name!r}")
        home = _HOME[name]
        value = import_module(f"veilstream.{name}") if home == __name__ else getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
