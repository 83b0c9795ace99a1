"""Streams that rows are added to while time goes on: the public clock, the durable spool, closing by time."""

from veilstream.live.clock import ScaledClock, Timetable, WallClock
from veilstream.live.definition import StreamDefinition
from veilstream.live.spool import Spool
from veilstream.live.stream import AsyncLiveStream, LiveStream, open_async_stream, open_stream

__all__ = [
    "AsyncLiveStream",
    "LiveStream",
    "ScaledClock",
    "Spool",
    "StreamDefinition",
    "Timetable",
    "WallClock",
    "open_async_stream",
    "open_stream",
]
