"""Non-linear statistics of exact data for private choices, each with its sensitivity proved where it stands.

Besides the Meter and the codec, the functions of this package are the only ones that see exact values. Every one
returns ``Scores``, sealed like the data, and is attacked by a property test on neighbouring data.
"""

from veilstream.trusted.statistics.base import JointScores, Scores
from veilstream.trusted.statistics.clusters import Boundaries, Stretches, bisection_scores, boundaries, stretches
from veilstream.trusted.statistics.fourier_series import series_coordinates
from veilstream.trusted.statistics.medians import median_scores, record_median_scores
from veilstream.trusted.statistics.quantile import cut_scores, quantile_scores
from veilstream.trusted.statistics.spectrum import cutoff_scores

__all__ = [
    "Boundaries",
    "JointScores",
    "Scores",
    "Stretches",
    "bisection_scores",
    "boundaries",
    "cut_scores",
    "cutoff_scores",
    "median_scores",
    "quantile_scores",
    "record_median_scores",
    "series_coordinates",
    "stretches",
]
