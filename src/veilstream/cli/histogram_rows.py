"""The rows that a one-time histogram counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from veilstream.cli.options import require_people
from veilstream.data import Calendar, ReadOptions

if TYPE_CHECKING:
    import polars as pl

    from veilstream.data import Domain, Dropped
    from veilstream.trusted.counts import Sealed
    from veilstream.trusted.records import SealedRecords

NOW: Final = "veilstream_step"
ROW: Final = "veilstream_row"
ONE_STEP: Final = Calendar(0, 1, 1)


@dataclass(frozen=True, slots=True)
class HistogramRows:
    """The rows of a file as events of one step."""

    file: str | tuple[str, ...]
    domain: Domain
    user: str | None
    row_per_person: bool
    bins_per_user: int
    counts_per_user: int
    unknown: str
    options: ReadOptions

    def __post_init__(self) -> None:
        from veilstream.errors import InvalidInputError
        from veilstream.jobs.checks import refuse_same_file_twice, refuse_shared_column

        require_people(self.user, self.row_per_person)
        refuse_shared_column(self.user, None, self.domain)
        refuse_same_file_twice(self.file)
        if self.unknown not in ("error", "drop"):
            raise InvalidInputError(
                name="unknown", value=self.unknown, limit="it is 'error' or 'drop'", outcome="nothing was read"
            )

    def snapshot(self) -> tuple[Sealed, Dropped]:
        """The counts, and what was left out of them, which is for the operator."""
        from veilstream.data import read_events
        from veilstream.data.bounding import bound

        events = read_events(self._batches(), user=self.user or ROW, time=NOW, by=self.domain.names)
        unknown: Any = self.unknown
        with bound(
            events,
            self.domain,
            ONE_STEP,
            bins_per_user=self.bins_per_user,
            counts_per_user=self.counts_per_user,
            unknown=unknown,
        ) as bounded:
            return next(bounded.snapshots()), bounded.dropped

    def records(self) -> SealedRecords:
        """The rows as records, where the cells of the domain cannot be listed."""
        from veilstream.data.encoding import left_out
        from veilstream.data.readers import open_batches
        from veilstream.synthesis import read_rows

        unknown: Any = self.unknown
        source = open_batches(self.file, self._columns, self.options, user=self.user, dropped=left_out(unknown))
        rows = read_rows(source, self.domain, user=self.user, rows_per_user=self.counts_per_user, unknown=unknown)
        return rows.records()

    @property
    def _columns(self) -> list[str]:
        return [*self.domain.names] if self.user is None else [self.user, *self.domain.names]

    def _batches(self) -> Iterator[pl.DataFrame]:
        import polars as pl

        from veilstream.data.encoding import left_out
        from veilstream.data.readers import open_batches

        seen = 0
        unknown: Any = self.unknown
        for batch in open_batches(self.file, self._columns, self.options, user=self.user, dropped=left_out(unknown)):
            numbered = batch.with_columns(pl.lit(0, dtype=pl.Int64).alias(NOW))
            if self.user is None:
                numbered = numbered.with_row_index(ROW, offset=seen)
            seen += batch.height
            yield numbered
