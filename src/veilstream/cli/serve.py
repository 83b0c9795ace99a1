"""``veilstream serve`` and ``veilstream token``: the live service and who may use it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.groups import command_group
from veilstream.cli.reporting import ExitCode, print_json

if TYPE_CHECKING:
    from veilstream.server.service import ServerOptions, Service
    from veilstream.server.tokens import TokenStore

token_app = command_group("Tokens of the live service: who may send rows, read, operate.")
LEDGER_HELP = "The ledger; the spool and the tokens lie beside it."


def serve(
    config: Annotated[
        Path | None,
        typer.Option("--config", help="A TOML file: ledger, and [streams.NAME] tables.", show_default=False),
    ] = None,
    ledger: Annotated[str | None, typer.Option("--ledger", help=LEDGER_HELP, show_default=False)] = None,
    spool: Annotated[
        str | None, typer.Option("--spool", help="Where rows wait. Default: LEDGER.spool.", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on.", min=1, max=65535)] = 8765,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="Name that readers may use for this server; repeat.", show_default=False),
    ] = None,
    tls_cert: Annotated[str | None, typer.Option("--tls-cert", help="Certificate (PEM).", show_default=False)] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", help="Its private key (PEM).", show_default=False)] = None,
    behind_proxy: Annotated[
        str | None,
        typer.Option("--behind-proxy", help="Addresses of proxies that end TLS before this.", show_default=False),
    ] = None,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Publish steps that have waited for longer than a week.")
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Replay the bundled influenza data on a live page.")] = False,
) -> int:
    """Take rows over HTTP, publish steps by the clock, and show them on a live page."""
    import os
    import tempfile

    from veilstream.errors import InvalidInputError
    from veilstream.extras import require

    for package in ("fastapi", "uvicorn", "httpx"):
        require(package, "the server")
    from veilstream.server.run import Listen

    listen = Listen(host, port, tls_cert, tls_key, behind_proxy)
    hosts = tuple(allow_host or ())
    os.umask(0o077)
    if demo:
        for name, value in (
            ("config", config),
            ("ledger", ledger),
            ("spool", spool),
            ("tls_cert", tls_cert),
            ("tls_key", tls_key),
        ):
            if value is not None:
                raise InvalidInputError(
                    name=name,
                    value=value,
                    limit="the demo has streams and a ledger of its own, without TLS",
                    outcome="nothing was started",
                    next_step="leave it out, or leave --demo out",
                )
        with tempfile.TemporaryDirectory(prefix="veilstream-demo-") as place:
            return _serve_demo(Path(place) / "budget.db", listen, hosts)
    options = _options(config, ledger, spool, hosts, secure=tls_cert is not None or behind_proxy is not None)
    options = replace(options, catch_up=catch_up)
    from veilstream.server.run import run
    from veilstream.server.service import Service

    service = Service(options)
    if service.leading and not service.boards:
        raise InvalidInputError("streams: none is defined; write a table [streams.NAME] in a --config file", outcome="")
    _greet(listen, service, secure=options.secure)
    return ExitCode.OK if run(service, listen) else ExitCode.INTERNAL


def _serve_demo(ledger: Path, listen: Any, hosts: tuple[str, ...]) -> int:
    from functools import partial
    from threading import Event

    from veilstream.server.demo import Replay, definitions, feed, fill, in_background
    from veilstream.server.run import run
    from veilstream.server.service import ServerOptions, Service

    typer.echo("publishing the first 60 weeks ...", err=True)
    replay = Replay()
    clock = fill(ledger, replay)
    service = Service(ServerOptions(ledger, streams=definitions(), hosts=hosts), clock)
    ingest, _ = service.tokens.create("replay", ("ingest",), life="10000w")
    operator, _ = service.tokens.create("demo operator", ("operate", "admin"), life="10000w")
    _greet(listen, service, secure=False)
    typer.echo(f"to see the operator's view, sign in with {operator}", err=True)
    stop = Event()
    url = f"http://127.0.0.1:{listen.port}"
    in_background(partial(feed, url, ingest, clock, replay, stop))
    try:
        return ExitCode.OK if run(service, listen) else ExitCode.INTERNAL
    finally:
        stop.set()


def _greet(listen: Any, service: Service, *, secure: bool) -> None:
    scheme = "https" if listen.certificate else "http"
    name = "localhost" if listen.host in ("0.0.0.0", "127.0.0.1", "::") else listen.host
    if not service.leading:
        typer.echo("another server is at this ledger; this one stands by, and takes over when that one ends", err=True)
    typer.echo(f"{len(service.boards)} stream(s); open {scheme}://{name}:{listen.port}/", err=True)
    if not secure and listen.host not in ("127.0.0.1", "localhost", "::1"):
        typer.echo("without TLS tokens travel in clear: give --tls-cert and --tls-key, or --behind-proxy", err=True)


def _options(
    config: Path | None, ledger: str | None, spool: str | None, hosts: tuple[str, ...], *, secure: bool
) -> ServerOptions:
    from veilstream.errors import InvalidInputError
    from veilstream.server.config import read_config
    from veilstream.server.service import ServerOptions

    settings = read_config(config) if config is not None else None
    where = ledger or (settings.ledger if settings is not None else None)
    if where is None:
        raise InvalidInputError("ledger: missing; name it with --ledger budget.db or in --config", outcome="")
    return ServerOptions(
        where,
        spool or (settings.spool if settings is not None else None),
        settings.streams if settings is not None else (),
        settings.sources if settings is not None else (),
        (*hosts, *(settings.hosts if settings is not None else ())),
        secure,
        populations=settings.populations if settings is not None else (),
    )


def _tokens(ledger: str) -> TokenStore:
    from veilstream.live.clock import WallClock
    from veilstream.live.spool import Spool
    from veilstream.live.stream import spool_beside
    from veilstream.server.tokens import TokenStore

    return TokenStore(Spool(spool_beside(ledger)), WallClock())


@token_app.command("create")
def create_token(
    label: Annotated[str, typer.Argument(help="Who will use it.")],
    ledger: Annotated[str, typer.Option("--ledger", help=LEDGER_HELP)],
    scope: Annotated[list[str], typer.Option("--scope", help="ingest, read, operate or admin; repeat for several.")],
    stream: Annotated[
        list[str] | None,
        typer.Option("--stream", help="For this stream alone; repeat. Default: all.", show_default=False),
    ] = None,
    life: Annotated[str, typer.Option("--life", help="How long it is valid: 12h, 90d, 52w.")] = "90d",
    quota: Annotated[
        int | None,
        typer.Option("--quota", help="Bytes of batches that it may send a day. Default: no limit.", show_default=False),
    ] = None,
) -> None:
    """Make a token; it is shown once."""
    token, grant = _tokens(ledger).create(label, tuple(scope), tuple(stream or ["*"]), life, quota=quota)
    typer.echo(f"token {grant.id}, valid until {grant.as_json()['expires']}; it is shown once:", err=True)
    typer.echo(token)


@token_app.command("list")
def list_tokens(ledger: Annotated[str, typer.Option("--ledger", help=LEDGER_HELP)]) -> None:
    """Show valid tokens, without their secrets."""
    print_json({"tokens": [grant.as_json() for grant in _tokens(ledger).grants()]})


@token_app.command("rotate")
def rotate_token(
    token_id: Annotated[str, typer.Argument(help="The token's id, from 'list'.")],
    ledger: Annotated[str, typer.Option("--ledger", help=LEDGER_HELP)],
) -> None:
    """Give a token another secret; the old one is void at once."""
    typer.echo(_tokens(ledger).rotate(token_id))


@token_app.command("revoke")
def revoke_token(
    token_id: Annotated[str, typer.Argument(help="The token's id, from 'list'.")],
    ledger: Annotated[str, typer.Option("--ledger", help=LEDGER_HELP)],
) -> None:
    """Void a token at once."""
    _tokens(ledger).revoke(token_id)
