"""Non-linear statistics of exact data for private choices, each with its sensitivity proved where it stands.

Besides the Meter and the codec, the functions of this package are the only ones that see exact values. Every one
returns ``Scores``, sealed like the data, and is attacked by a property test on neighbouring data.
"""

from veilstream.scores.base import JointScores, Scores
from veilstream.scores.quantile import quantile_scores

__all__ = ["JointScores", "Scores", "quantile_scores"]
