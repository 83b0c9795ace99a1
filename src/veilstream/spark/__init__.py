"""Events on a Spark cluster: bounded and counted where they lie, with only sealed counts coming here."""

from veilstream.spark.arrivals import delta_events, iceberg_events, kafka_events, kafka_options
from veilstream.spark.closing import Clock, ClosedSteps, publish_closed
from veilstream.spark.counting import snapshots
from veilstream.spark.session import SAFE_SETTINGS, local_session, require_java
from veilstream.spark.sparse import records

__all__ = [
    "SAFE_SETTINGS",
    "Clock",
    "ClosedSteps",
    "delta_events",
    "iceberg_events",
    "kafka_events",
    "kafka_options",
    "local_session",
    "publish_closed",
    "records",
    "require_java",
    "snapshots",
]
