"""Templates of calls of the Python API and their usual arguments, by public name."""

from __future__ import annotations

from typing import Final

DOMAIN: Final = "vs.Domain({'p': vs.Categories(['a', 'b', 'c'])})"
FRAME: Final = "{'id': [1, 2, 3], 'ts': [0, 1, 2], 'p': ['a', 'b', 'c']}"
PUBLISHER: Final = "vs.Publisher({bins}, {guarantee}, {mechanism}, {ledger}, stream={stream}, max_contribution={most})"
USUAL_PUBLISHER: Final = {
    "bins": "3", "guarantee": "vs.Guarantee(1, w=3)", "mechanism": "vs.Uniform()", "ledger": "None", "stream": "'x'",
    "most": "1",
}  # fmt: skip
STREAM: Final = "dict(user='id', every='1h', start='2024-01-01', epsilon='1', window=3)"

Recipe = tuple[str, dict[str, str]]
RECIPES: Final[dict[str, list[Recipe]]] = {
    "Guarantee": [
        (
            "vs.Guarantee({epsilon}, w={w}, delta={delta}, pure_share={share})",
            {"epsilon": "1", "w": "3", "delta": "0", "share": "None"},
        ),
        ("vs.Guarantee({epsilon}, per={per}, presence={presence})", {"epsilon": "1", "per": "'1w'", "presence": "2"}),
        ("vs.Guarantee({epsilon}, {w}).to_json()", {"epsilon": "1", "w": "None"}),
        ("vs.Guarantee.from_json({text})", {"text": "'{}'"}),
    ],
    "Population": [
        (
            "vs.Population({name}, {epsilon}, {window}, every={every}, start={start}, zone={zone}, delta={delta})",
            {
                "name": "'residents'",
                "epsilon": "2",
                "window": "'24h'",
                "every": "'1h'",
                "start": "'2024-01-01'",
                "zone": "'UTC'",
                "delta": "0",
            },
        ),
        (
            "vs.Population({name}, {epsilon}, {window}, unit={unit})",
            {"name": "'all'", "epsilon": "1", "window": "None", "unit": "'events'"},
        ),
    ],
    "Membership": [
        (
            "vs.Membership({name}, {draw}, {unit}, {data}, {apart}).to_json()",
            {"name": "'residents'", "draw": "'reserved'", "unit": "'people'", "data": "None", "apart": "None"},
        ),
    ],
    "Charge": [
        (
            "vs.Charge({epsilon}, {span}, {purpose}, {mu}, {block}, {bins}, {starts})",
            {
                "epsilon": "Fraction(1, 2)",
                "span": "vs.Span(0, 1)",
                "purpose": "'x'",
                "mu": "Fraction(0)",
                "block": "None",
                "bins": "None",
                "starts": "None",
            },
        )
    ],
    "Span": [("vs.Span({first}, {last}).touches({other})", {"first": "0", "last": "1", "other": "vs.Span(1, 2)"})],
    "Categories": [
        ("vs.Categories({values}).encode({column})", {"values": "['a', 'b']", "column": "pl.Series(['a'])"}),
        ("vs.Categories({values}).labels()", {"values": "['a', 'b']"}),
    ],
    "Edges": [("vs.Edges({edges}).encode({column})", {"edges": "[0, 1, 2]", "column": "pl.Series([1.5])"})],
    "Grid": [
        (
            "vs.Grid({low}, {high}, {cells}).encode({column})",
            {"low": "0", "high": "1", "cells": "3", "column": "pl.Series([0.5])"},
        )
    ],
    "Domain": [
        ("vs.Domain({axes})", {"axes": "{'p': vs.Categories(['a'])}"}),
        (f"{DOMAIN}.encode({{frame}})", {"frame": "pl.DataFrame({'p': ['a', 'b']})"}),
        (f"{DOMAIN}.range({{low}}, {{high}})", {"low": "0", "high": "1"}),
        ("vs.Domain.from_json({given})", {"given": "{'p': ['a', 'b']}"}),
        ("vs.Domain.from_public_data({frame}, {names})", {"frame": "pl.DataFrame({'p': ['a']})", "names": "['p']"}),
    ],
    "Calendar": [
        (
            "vs.Calendar({start}, {end}, {every}, {zone}).steps",
            {"start": "'2024-01-01'", "end": "'2024-01-02'", "every": "'1h'", "zone": "'UTC'"},
        ),
        ("vs.Calendar('2024-01-01', '2024-01-02', '1h').label({t})", {"t": "3"}),
        ("vs.Calendar('2024-01-01', '2024-01-02', '1h').begins({t})", {"t": "3"}),
        ("vs.Calendar('2024-01-01', '2024-01-02', '1h').ends({t})", {"t": "3"}),
        ("vs.Calendar('2024-01-01', '2024-01-02', '1h').step_of({moment})", {"moment": "datetime(2024, 1, 1)"}),
        ("vs.Calendar.from_public_data({times}, {every})", {"times": "pl.Series([1, 5])", "every": "1"}),
    ],
    "Publisher": [
        (PUBLISHER, USUAL_PUBLISHER),
        (PUBLISHER + ".feed({counts}, {t})", USUAL_PUBLISHER | {"counts": "np.array([1, 2, 3])", "t": "0"}),
        (
            f"vs.Publisher({DOMAIN}, vs.Guarantee(1, w=2), vs.Uniform()).feed({{counts}}, t={{t}})",
            {"counts": "np.array([1, 2, 3])", "t": "0"},
        ),
    ],
    "Release": [
        (
            "vs.Release({stream}, {seq}, {t}, {payload}, {spent}, {left}).interval({level})",
            {
                "stream": "'x'",
                "seq": "1",
                "t": "0",
                "payload": "vs.Values(np.array([1.0]), 2.0)",
                "spent": "Fraction(1)",
                "left": "Fraction(0)",
                "level": "0.95",
            },
        )
    ],
    "Values": [
        (
            "vs.Values({numbers}, {std}, {law}, {fresh})",
            {"numbers": "np.array([1.0, 2.0])", "std": "1.0", "law": "'laplace'", "fresh": "True"},
        )
    ],
    "Ledger": [
        ("vs.Ledger.open({where})", {"where": "None"}),
        ("vs.Ledger({backend})", {"backend": "None"}),
        ("vs.Ledger.open(None).head({stream})", {"stream": "'x'"}),
        ("vs.Ledger.open(None).release_at({stream}, {t})", {"stream": "'x'", "t": "0"}),
        ("list(vs.Ledger.open(None).releases({stream}, after={after}))", {"stream": "None", "after": "0"}),
    ],
    "StreamDefinition": [
        (
            "vs.StreamDefinition({name}, {user}, {start}, {every}, {epsilon}, {window}, zone={zone}, domain={domain}, "
            "mechanism={mechanism}, delay={delay}, grace={grace})",
            {
                "name": "'x'",
                "user": "'id'",
                "start": "'2024-01-01'",
                "every": "'1h'",
                "epsilon": "'1'",
                "window": "3",
                "zone": "'UTC'",
                "domain": "{}",
                "mechanism": "'uniform'",
                "delay": "'10s'",
                "grace": "'0s'",
            },
        ),
        ("vs.StreamDefinition.from_json({given})", {"given": STREAM.replace("dict(", "dict(name='x', ")}),
    ],
    "publish": [
        (
            "vs.publish({source}, time={time}, user={user}, every={every}, start={start}, end={end}, "
            "epsilon={epsilon}, window={window}, ledger={ledger}, by={by}, domain={domain}, "
            "mechanism={mechanism}, histogram={histogram})",
            {
                "source": FRAME,
                "time": "'ts'",
                "user": "'id'",
                "every": "1",
                "start": "0",
                "end": "3",
                "epsilon": "1",
                "window": "3",
                "ledger": "'b.db'",
                "by": "['p']",
                "domain": "{'p': ['a', 'b', 'c']}",
                "mechanism": "'uniform'",
                "histogram": "None",
            },
        ),
        (
            "vs.publish({source}, time='ts', user='id', every=1, start=0, end=3, epsilon=1, window=3, ledger='b.db', "
            "{option}={value})",
            {"source": FRAME, "option": "level", "value": "0.9"},
        ),
    ],
    "open_stream": [
        (
            "vs.open_stream({ledger}, {name}, {definition}, spool={spool}).close()",
            {"ledger": "'b.db'", "name": "'x'", "definition": STREAM, "spool": "None"},
        ),
        (f"vs.open_stream('b.db', 'x', {STREAM}).add({{rows}})", {"rows": "{'id': [1], 'time': ['2024-01-01T01']}"}),
        (f"vs.open_stream('b.db', 'x', {STREAM}).close_until({{when}})", {"when": "'2024-01-01T02'"}),
    ],
    "open_async_stream": [
        (
            "vs.open_async_stream({ledger}, {name}, {definition})",
            {"ledger": "'b.db'", "name": "'x'", "definition": STREAM},
        )
    ],
    "advise": [
        (
            "vs.advise(count={count}, bins={bins}, every={every}, window={window}, epsilon={epsilon}, error={error}, "
            "steps={steps}, per_person={per_person}, runs={runs})",
            {
                "count": "500",
                "bins": "1",
                "every": "'1h'",
                "window": "3",
                "epsilon": "1",
                "error": "None",
                "steps": "None",
                "per_person": "1",
                "runs": "'none'",
            },
        )
    ],
    "simulate": [
        (
            "vs.simulate({mechanism}, {guarantee}, {snapshots}, {seed}, max_contribution={most})",
            {
                "mechanism": "vs.Uniform()",
                "guarantee": "vs.Guarantee(1, w=3)",
                "snapshots": "np.ones((3, 2), dtype=int)",
                "seed": "1",
                "most": "1",
            },
        )
    ],
    "simulate_many": [
        (
            "vs.simulate_many(vs.Uniform(), vs.Guarantee(1, w=3), {snapshots}, {seed}, runs={runs}, shape={shape})",
            {"snapshots": "np.ones((3, 2), dtype=int)", "seed": "1", "runs": "2", "shape": "None"},
        )
    ],
    "Client": [
        (
            "vs.Client({url}, {token}, timeout={timeout}).close()",
            {"url": "'http://127.0.0.1:1'", "token": "None", "timeout": "1"},
        ),
        ("vs.Client('http://127.0.0.1:1', timeout=1).send({rows}, {stream})", {"stream": "'x'", "rows": FRAME}),
    ],
    "noise": [
        ("vs.noise.SecureNoise().laplace({scale}, {size})", {"scale": "10", "size": "3"}),
        ("vs.noise.SecureNoise().gaussian({variance}, {size})", {"variance": "10", "size": "3"}),
    ],
    "STREAMS": [("vs.STREAMS[{name}]()", {"name": "'uniform'"})],
    "HISTOGRAMS": [("vs.HISTOGRAMS[{name}]()", {"name": "'geometric'"})],
}
"""Templates of calls and their usual arguments, by public name; mechanisms are below."""
