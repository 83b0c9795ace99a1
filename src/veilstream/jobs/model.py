"""The settings of a publishing job: from the command line, from Python, or from a TOML file with the same names.

Each setting is written once, here: its name, type, default and description make the option of the command line too.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.jobs.refusals import refusal
from veilstream.jobs.window import steps_of_distinct, steps_of_window
from veilstream.privacy.draws import Draw
from veilstream.release.plot_options import Kind
from veilstream.values.choices import DEFAULT_CELLS, MOST_CELLS, SO_FAR, SO_FAR_SETTINGS, STATISTICS, STEP, Vintages

if TYPE_CHECKING:
    from veilstream.data.measures import ValueMeasures

Moment: TypeAlias = int | str | datetime | date
Policy: TypeAlias = Literal["error", "drop"]
Number: TypeAlias = str | int | float
Columns: TypeAlias = tuple[str, ...] | dict[str, tuple[Number, Number]]
"""Columns to measure: their names, with ranges as in fare=0..100, or a range for each name."""
PATHS = ("file", "domain", "ledger", "out", "plot", "key_file")


class Job(BaseModel):
    """Everything ``veilstream publish`` needs to know; unknown names are errors.

    >>> job = Job.build({"time": "ts", "user": "id", "every": "1h", "epsilon": "1", "window": 24})
    >>> job.mechanism, job.max_contribution
    ('auto', 1)
    >>> Job.build({"time": "ts", "user": "id", "every": "1h", "epsilon": "1", "windw": 24})
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: window: missing, it must be given; windw: no such setting, did you
    mean 'window'?; nothing was read
    """

    # What checks values is built when the first job is: help needs the fields alone.
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    file: str | tuple[str, ...] | None = Field(
        None, description="CSV, CSV.gz or Parquet: files, a directory, a glob, or - for standard input."
    )
    time: str = Field(description="Column of the time of a row.")
    user: str | None = Field(None, description="Column of the person's id.")
    row_per_person: bool = Field(False, description="Declare that every row is another person; instead of --user.")
    by: tuple[str, ...] | None = Field(
        None, description="Attribute to count by; repeat for several. Default: the domain's."
    )
    distinct: str | int | None = Field(
        None, description="Count people, not rows: of a 'step', 'so-far', or of the last steps, e.g. 7 or 7d."
    )
    value: str | None = Field(None, description="Column of counts that are aggregated already.")
    per_person: int | None = Field(None, description="With --value: most that one person adds to the counts of a step.")
    sum: Columns | None = Field(None, description="Column to sum up, e.g. fare or fare=0..100; repeat for several.")
    mean: Columns | None = Field(None, description="Column to average, with an interval; repeat for several.")
    variance: Columns | None = Field(None, description="Column whose variance to publish; repeat for several.")
    count: Columns | None = Field(None, description="Column whose rows to count besides; free with --mean.")
    median: Columns | None = Field(None, description="Column whose median to publish; repeat for several.")
    quantiles: Columns | None = Field(None, description="Column whose quantiles to publish; repeat for several.")
    at: tuple[Number, ...] = Field(
        ("0.1", "0.5", "0.9"), description="With --quantiles: shares of the rows below. Default: 0.1,0.5,0.9."
    )
    cells: int = Field(
        DEFAULT_CELLS, ge=2, le=MOST_CELLS, description="With --quantiles: equal cells of the range. Default: 64."
    )
    edges: tuple[Number, ...] | None = Field(
        None, description="With --quantiles: public edges of the cells instead, e.g. 0,5,10,30,60."
    )
    quantiles_by: Literal["cells", "choice"] = Field(
        "cells", description="From noisy 'cells' with intervals (default), or by 'choice' of an edge, without."
    )
    smooth: bool | None = Field(None, description="With --quantiles: lean on earlier releases (default), or not.")
    between: tuple[Number, Number] | None = Field(
        None, description="Public range of measured columns: two numbers; values outside count as its ends."
    )
    most_per_user: Number | None = Field(
        None, description="With --sum: most that one person adds to a sum in a step, besides the limit on rows."
    )
    missing_value: Policy = Field(
        "error", description="Rows without a count or a value to measure: 'error' (default), 'drop'."
    )

    domain: str | dict[str, Any] | None = Field(
        None, description="Public bins of each attribute: a JSON file, or JSON text."
    )
    every: str | int = Field(description="Length of a step: 15m, 1h, 1d, 1w, 1mo, or a number.")
    start: Moment | None = Field(None, description="Public start of the time range, included.")
    end: Moment | None = Field(None, description="Public end of the time range, excluded.")
    zone: str = Field("UTC", description="Zone of times without one, and of days. Default: UTC.")
    allow_empty: bool = Field(False, description="Publish steps after the last row of FILE too: silence is data.")
    public_from_data: bool = Field(False, description="Declare the values and the time range found in FILE public.")

    epsilon: str | int | float = Field(description="Privacy budget of a window, e.g. 1 or 1/2.")
    window: int | str = Field(
        description="Steps that share the budget: 1 (event level), a number, a duration such as 24h, or 'user'."
    )
    presence: int | None = Field(
        None, description="Steps in which one person counts: of a window, of a --per block, or for ever."
    )
    all_rows: bool = Field(
        False,
        description="With --presence after a run that did not end: the file has every row since the last that did.",
    )
    per: str | int | None = Field(
        None, description="Blocks that protect one person, instead of --window: 1d, 1w, 1mo, or a number of steps."
    )
    delta: str | int | float = Field(0, description="Probability of failure, for Gaussian noise. Default: 0.")
    mechanism: str = Field(
        "auto",
        description="See 'veilstream mechanisms'. Default: auto, release by models or what the stream began with.",
    )
    histogram: str | None = Field(None, description="How one release is made. Default: geometric.")
    settings: dict[str, Any] = Field(
        default_factory=dict, alias="set", description="Parameter of the mechanism, name=value; repeat for several."
    )
    sums: int | None = Field(
        None, ge=1, description="Steps that one number sums up, for mechanisms that publish sums of the last steps."
    )
    bins_per_user: int = Field(1, description="Bins one person counts in per step. Default: 1.")
    counts_per_user: int = Field(1, description="Rows of one person that count per step. Default: 1.")
    unknown: Policy = Field("error", description="Values outside the domain or range: 'error' (default) or 'drop'.")
    missing_time: Policy = Field("error", description="Rows without a time: 'error' (default) or 'drop'.")
    exhausted: Literal["error", "repeat"] = Field(
        "error",
        description="A step that failed tries left no budget for: 'error' (default) or 'repeat' the last.",
    )

    population: str | None = Field(None, description="Population of the ledger whose promise the stream keeps too.")
    draw: Draw = Field(
        "shared", description="'shared' (default) from the population's pool, or 'reserved', a share fixed now."
    )
    again: bool = Field(
        False, description="Publish another stream of the same rows: whoever is in both pays both promises."
    )
    unit: str = Field(
        "people",
        description="Whom the data are bounded by, as the population protects: people (default), devices, events.",
    )

    time_format: str | None = Field(
        None,
        description="How times are written: iso, day-first, month-first, epoch-s, epoch-ms, epoch-us, or %-codes.",
    )
    delimiter: str | None = Field(None, description="Between the fields of a CSV file. Default: recognised.")
    encoding: str | None = Field(
        None, description="Of a CSV file, e.g. latin-1. Default: UTF-8, or UTF-16 by its mark."
    )
    decimal: Literal[".", ","] = Field(".", description="The decimal sign in attributes and counts. Default: a point.")

    ledger: str | None = Field(None, description="The durable record: a file or a PostgreSQL URL.")
    stream: str = Field("default", min_length=1, description="Name of the stream in the ledger. Default: default.")
    key_file: str | None = Field(None, description="The stream's secret key. Default: LEDGER.STREAM.key.")
    out: str | None = Field(None, description="Table of releases: .parquet, .csv, .json or .ndjson.")
    vintages: Vintages = Field(
        "latest", description="Where values are revised: the latest, the first as released, or all. Default: latest."
    )
    plot: str | None = Field(None, description="Picture of releases: .png, .pdf, .svg, or .html to explore.")
    plot_kind: Kind = Field("auto", description="lines, map, bars or grid. Default: by the shape of the releases.")
    plot_bins: tuple[str, ...] | None = Field(
        None, description="Labels of bins to draw, repeatable, or the number of the largest."
    )
    plot_title: str | None = Field(None, description="Title of the picture. Default: the name of the stream.")
    plot_range: tuple[float, float] | None = Field(None, description="Ends of the axis of values: two numbers.")
    plot_size: tuple[float, float] | None = Field(None, description="Width and height of the picture in inches.")
    level: float = Field(0.95, gt=0, lt=1, description="Level of the error intervals. Default: 0.95.")

    @property
    def w(self) -> int | None:
        """The window in steps, None at user level and per block."""
        return steps_of_window(self.window, self.every)

    @property
    def max_contribution(self) -> int:
        """How many counts one person may add to a step."""
        return self.counts_per_user if self.per_person is None else self.per_person

    @property
    def measures(self) -> ValueMeasures | None:
        """What is published of which columns; None where rows or people are counted."""
        from veilstream.data.measures import QuantileOptions
        from veilstream.jobs.measured import measures_of
        from veilstream.privacy.rationals import rational

        shares = tuple(rational(share, "at") for share in self.at)
        quantiles = QuantileOptions(shares, self.cells, self.edges, grouped=self.quantiles_by == "cells")
        return measures_of({name: getattr(self, name) for name in STATISTICS}, self.between, quantiles)

    @property
    def distinct_steps(self) -> int | None:
        """Over how many last steps people are counted once; None where rows are counted."""
        if self.distinct is None:
            return None
        return 1 if self.distinct in (STEP, SO_FAR) else steps_of_distinct(self.distinct, self.every)

    @property
    def most(self) -> Fraction | None:
        """The bound on what one person adds to a sum."""
        from veilstream.privacy.rationals import rational

        return None if self.most_per_user is None else rational(self.most_per_user, "most_per_user")

    @property
    def blocks(self) -> str | int | None:
        """The blocks that protect one person: a duration, or a number of steps."""
        return int(self.per) if isinstance(self.per, str) and self.per.isdecimal() else self.per

    @model_validator(mode="before")
    @classmethod
    def _blocks_take_the_place_of_a_window(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        settings = dict(cast(Mapping[str, Any], given))
        if settings.get("per") is not None:
            if settings.get("window") is not None:
                raise ValueError("per: not allowed with 'window'; a person is protected per block or in any window")
            settings["window"] = "user"
        if settings.get("distinct") == SO_FAR:
            settings = {**SO_FAR_SETTINGS, **{name: value for name, value in settings.items() if value != "auto"}}
        return settings

    @field_validator("at", "edges", mode="before")
    @classmethod
    def _several_numbers(cls, given: Any) -> Any:
        if given is None:
            return None
        several = cast("Sequence[Any]", given) if isinstance(given, tuple | list) else (given,)
        return tuple(part.strip() for one in several for part in str(one).split(","))

    @field_validator(*STATISTICS, mode="before")
    @classmethod
    def _one_column(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @field_validator("epsilon", "delta", mode="before")
    @classmethod
    def _decimal_point(cls, number: Any, info: ValidationInfo) -> Any:
        if isinstance(number, str) and re.fullmatch(r"\s*\d*,\d+\s*", number):
            raise InvalidBudgetError(
                name=info.field_name,
                value=number,
                limit="a decimal point is needed",
                outcome="nothing was read",
                next_step=f"write {number.strip().replace(',', '.')}",
            )
        return number

    @model_validator(mode="after")
    def _known_window(self) -> Self:
        steps_of_window(self.window, self.every)
        return self

    @model_validator(mode="after")
    def _one_kind_of_input(self) -> Self:
        if self.value is None and self.per_person is not None:
            raise ValueError("per_person: only for counts that come with 'value'; events are bounded instead")
        if self.value is None and self.user is None and not self.row_per_person:
            raise ValueError(
                "user: missing, it must name the column of people's ids (or give 'value' and 'per_person' for "
                "counts that are aggregated already, or declare 'row_per_person')"
            )
        if self.row_per_person and (self.user is not None or self.value is not None):
            raise ValueError("row_per_person: not allowed with 'user' or 'value'")
        if self.value is not None and self.user is not None:
            raise ValueError("user: not allowed with 'value', which takes counts without people")
        if self.value is not None and self.per_person is None:
            raise ValueError(
                "per_person: missing, with 'value' you must declare how much one person can add to the counts of one "
                "step; it cannot be learned from counts"
            )
        return self

    @model_validator(mode="after")
    def _distinct_people(self) -> Self:
        if self.distinct is None:
            return self
        if self.value is not None or self.measures is not None or self.row_per_person or self.counts_per_user != 1:
            raise ValueError(
                "distinct: people are counted by their ids, so not with 'value', 'counts_per_user', 'row_per_person' "
                "or columns that are measured"
            )
        steps = self.distinct_steps
        if self.distinct == SO_FAR and (self.presence, self.w, self.per) != (1, None, None):
            raise ValueError("distinct: so far a person counts once for ever, with 'window' user and 'presence' 1")
        if steps is not None and steps > 1 and (self.presence is not None or self.per is not None):
            raise ValueError(
                "distinct: people of the last steps are protected by a 'window', not by 'presence' or 'per'"
            )
        if steps is not None and steps > 1 and self.population is not None:
            raise ValueError(
                "distinct: people of the last steps are seen for longer than a window of a 'population' looks back; "
                "count the people of each step, or so far, or leave the population out"
            )
        return self

    @model_validator(mode="after")
    def _measures_of_events(self) -> Self:
        asked = self.measures
        if self.quantiles_by == "choice" and (asked is None or asked.single_quantiles is None):
            raise ValueError("quantiles_by: a choice of edges is for the quantiles of one column and nothing besides")
        if self.smooth is not None and (self.quantiles_by == "choice" or not (self.quantiles or self.median)):
            raise ValueError("smooth: it is for quantiles and medians from cells")
        if asked is None:
            for name in ("between", "most_per_user", "edges"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name}: only with settings that measure a column, such as 'sum' or 'quantiles'")
            return self
        if self.value is not None:
            raise ValueError("value: not allowed with columns that are measured, which takes rows of people")
        if self.user in asked.names:
            raise ValueError(f"user: '{self.user}' is the person's id and cannot also be measured")
        # What bounds a sum may bound nothing else.
        asked.movement(self.counts_per_user, self.most)
        return self

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> Self:
        """Check the settings; one line says all that is wrong with them."""
        try:
            return cls.model_validate(dict(settings))
        except ValidationError as error:
            raise refusal([{**item} for item in error.errors(include_url=False)], known_settings()) from None
        except UnicodeEncodeError:
            # Pydantic cannot hand such a text to its patterns.
            halved = [name for name, value in settings.items() if isinstance(value, str) and not _is_whole(value)]
            raise InvalidInputError(
                name=next(iter(halved), "settings"), limit="half a character is in it", outcome="nothing was read"
            ) from None

    @classmethod
    def load(cls, config: Path | None, given: Mapping[str, Any]) -> Self:
        """The job of a TOML file, overridden by what was ``given`` on the command line.

        Relative paths in the file are relative to the file's own directory, so that a job runs the same from anywhere.
        """
        settings = {} if config is None else _read_toml(config)
        chosen = {name: value for name, value in given.items() if value is not None and name != "set"}
        own: Any = settings.get("set") or {}
        if not isinstance(own, Mapping):
            raise InvalidInputError(
                name="set", limit="a table of parameters is needed, [set]", outcome="nothing was read"
            )
        merged = {**dict(cast(Mapping[str, Any], own)), **dict(given.get("set") or {})}
        return cls.build({**settings, **chosen, "set": merged})


def _is_whole(text: str) -> bool:
    """Whether a text can be written as UTF-8: half of a pair of surrogates cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def known_settings() -> list[str]:
    """The names of all settings, as a TOML file has them."""
    return [field.alias or name for name, field in Job.model_fields.items()]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInputError(
            name="config", value=path, limit="there is no such file", outcome="nothing was read"
        ) from None
    except RecursionError:
        raise InvalidInputError(
            name="config", value=path, limit="its brackets nest too deeply", outcome="nothing was read"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            name="config", value=path, limit=f"not valid TOML ({error})", outcome="nothing was read"
        ) from None
    except OSError as error:
        raise InvalidInputError(
            name="config", value=path, limit=f"{error.strerror}", outcome="nothing was read"
        ) from None
    for name in PATHS:
        value = settings.get(name)
        if isinstance(value, str):
            settings[name] = _beside(path, value)
        elif isinstance(value, list):
            settings[name] = [
                _beside(path, part) if isinstance(part, str) else part for part in cast(Sequence[Any], value)
            ]
    return settings


def _beside(config: Path, given: str) -> str:
    return given if "://" in given or given == "-" else str(config.parent / given)
