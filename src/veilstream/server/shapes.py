"""The JSON that goes in and out, as the OpenAPI description shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from veilstream.server.tokens import DEFAULT_LIFE


class Problem(BaseModel):
    """What was wrong and what to do; it never holds a private value."""

    type: str
    message: str


class ProblemBody(BaseModel):
    error: Problem


class Accepted(BaseModel):
    """The batch is durable."""

    status: Literal["accepted", "duplicate"]


class Spark(BaseModel):
    """All bins of the last releases together: sums of counts, or the first measure of all their rows."""

    step: list[int]
    total: list[float | None]
    fresh: list[bool]


class MapAxis(BaseModel):
    name: str
    edges: list[float]


class MapGrid(BaseModel):
    """The borders of a map. ``x_first`` says that bins go through y fastest, ``degrees`` that both are degrees.

    Where bins are named cells, ``cells`` holds the west, south, east and north of each bin.
    """

    x: MapAxis
    y: MapAxis
    x_first: bool
    degrees: bool
    cells: list[tuple[float, float, float, float]] | None


class MeasureInfo(BaseModel):
    """One statistic of a measured column. ``share`` is that of the rows below a quantile, ``low`` and ``high`` are the
    public range of the column; ``unit`` is empty where nobody gave one."""

    label: str
    statistic: str
    column: str
    share: float | None
    low: float
    high: float
    unit: str


class StreamInfo(BaseModel):
    """What is public about a stream."""

    name: str
    title: str
    description: str
    unit: str
    counted: str
    headline: str
    so_far: bool
    measures: list[MeasureInfo] | None
    bins: int
    attributes: dict[str, list[str]]
    labels: list[str]
    grid: MapGrid | None
    every: str
    zone: str
    start: str
    epsilon: str
    delta: str
    window: int | Literal["user"] | None
    per: str | None
    presence: int | None
    population: str | None
    mechanism: str
    bins_per_user: int
    counts_per_user: int
    grace: str
    delay: str
    promise: str
    first: int
    head: int
    next_step: int
    next_shown: str
    now: str
    spark: Spark


class StreamList(BaseModel):
    streams: list[StreamInfo]


class ReleasePage(BaseModel):
    """Releases column by column. Where columns are measured, ``measures`` names the statistics, and the numbers of a
    release are all bins of the first, then all of the second, and so on; null where nothing is known of one.

    The interval of a count is ``half`` to either side: one number, or one for each bin. That of a measured value lies
    between ``low`` and ``high``.

    ``covers`` says what the interval holds: the "value before noise", or the true "count" where a model says so,
    and ``as_of`` of which step: a repeated value is that of an earlier one.
    """

    stream: str
    level: float
    head: int
    next: int | None
    step: list[int]
    time: list[str]
    fresh: list[bool]
    measures: list[str] | None
    values: list[list[float | None]]
    half: list[float | list[float]] | None
    low: list[list[float | None]] | None
    high: list[list[float | None]] | None
    covers: list[str]
    as_of: list[int]
    spent: list[str]
    left: list[str]


class RevisionPage(BaseModel):
    """New values for steps that were released before, column by column: ``version`` n was ``made`` n steps later."""

    stream: str
    level: float
    head: int
    next: int | None
    step: list[int]
    version: list[int]
    made: list[int]
    time: list[str]
    measures: list[str] | None
    values: list[list[float | None]]
    half: list[float | list[float]] | None
    low: list[list[float | None]] | None
    high: list[list[float | None]] | None
    covers: list[str]


class Returning(BaseModel):
    """Budget that comes back when a step leaves the window."""

    step: int
    epsilon: str
    at: str


class Budget(BaseModel):
    """Of the present window: what is spent, what is left, and when it comes back."""

    epsilon: str
    window: int | Literal["user"] | None
    per: str | None
    spent: str
    left: str
    returns: list[Returning]


class SessionRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    token: str = Field(max_length=200)


class SessionInfo(BaseModel):
    """Who is logged in; ``csrf`` goes into the header X-CSRF-Token of everything that changes something."""

    label: str | None
    scopes: list[str]
    streams: list[str]
    csrf: str | None


class TokenRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    label: str = Field(pattern=r"^[A-Za-z0-9 .@_-]{1,80}$")
    scopes: list[Literal["ingest", "read", "operate", "admin"]] = Field(min_length=1)
    streams: list[Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,99})$")]] = Field(
        default=["*"], min_length=1, max_length=1000
    )
    quota: int | None = Field(default=None, ge=1, le=1 << 50, description="Bytes of batches a day; null for no limit.")
    life: str = Field(default=DEFAULT_LIFE, pattern=r"^[1-9][0-9]{0,4}[smhdw]$")


class TokenInfo(BaseModel):
    id: str
    label: str
    scopes: list[str]
    streams: list[str]
    expires: str
    quota: int | None


class NewToken(BaseModel):
    """The token is shown here and never again."""

    token: str
    id: str


class TokenList(BaseModel):
    tokens: list[TokenInfo]


class AuditEntry(BaseModel):
    at: str
    who: str
    action: str
    subject: str
    outcome: str


class AuditLog(BaseModel):
    entries: list[AuditEntry]


class OperatorView(BaseModel):
    """Exact numbers of rows by hour and fate: for the operator alone, not to be published.

    Since the server started: ``batches`` by outcome, and limits in seconds that hold for 99 of 100 batches until they
    were durable, and for 99 of 100 releases after their public moment; null where there are none, or beyond the last
    bucket.
    """

    streams: list[dict[str, Any]]
    ready: bool
    batches: dict[str, int]
    batch_p99: float | None
    delay_p99: float | None


class PopulationBudgets(BaseModel):
    """One statement for each population, and streams that belong to none, as `veilstream budget --json` gives them."""

    populations: list[dict[str, Any]]
    outside: list[dict[str, Any]]


class Health(BaseModel):
    status: Literal["ok", "not ready", "standby", "worker died"]
