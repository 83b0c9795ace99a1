"""What the process tells systemd and Prometheus, what it writes to its log, and how it changes its certificate."""

from __future__ import annotations

import io
import json
import logging
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.server.conftest import HOUR, StartServer, definition, until
from tests.server.test_ingest import CSV, body, frame, send
from veilstream.server.logs import LOG, JsonLines
from veilstream.server.metrics import HELP
from veilstream.server.run import Systemd, renew_certificate
from veilstream.server.workers import Worker

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def test_systemd_hears_that_the_server_is_ready_and_lives(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(definition())
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(str(tmp_path / "notify"))
        line.settimeout(10)
        manager = Systemd({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"})
        stop = threading.Event()
        thread = threading.Thread(target=manager.tell, args=(server.service, stop))
        thread.start()
        heard += [line.recv(200).decode() for _ in range(3)]
        assert heard == ["READY=1\nWATCHDOG=1\nSTATUS=ok", "WATCHDOG=1\nSTATUS=ok", "WATCHDOG=1\nSTATUS=ok"]
        # A worker that died, and a loop that is held up, are no longer called alive.
        held = threading.Event()
        server.service.call_soon(lambda: (held.wait(), None)[1])
        line.settimeout(0.5)
        assert len(list(until_silent(line))) < 5
        held.set()
        line.settimeout(10)
        assert line.recv(200).startswith(b"WATCHDOG=1")
        stop.set()
        thread.join()


def until_silent(line: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            yield line.recv(200)
        except TimeoutError:
            return


def pair(folder: Path, name: str) -> x509.Certificate:
    """Write a certificate and its key, as somebody does who renews them."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return made


def test_a_renewed_certificate_is_used_and_half_of_one_is_not(tmp_path: Path) -> None:
    files = [tmp_path / "cert.pem", tmp_path / "key.pem"]
    first = pair(tmp_path, "first")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*map(str, files))
    config = SimpleNamespace(loaded=True, ssl=context)
    stop = threading.Event()
    thread = threading.Thread(target=renew_certificate, args=(config, files, stop, 0.02))
    thread.start()

    def shown() -> bytes:
        near, far = socket.socketpair()
        with near, far:
            server = threading.Thread(target=lambda: context.wrap_socket(far, server_side=True).close())
            server.start()
            client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
            with client.wrap_socket(near) as line:
                found = line.getpeercert(binary_form=True)
            server.join()
        assert found is not None
        return found

    def form(one: x509.Certificate) -> bytes:
        return one.public_bytes(serialization.Encoding.DER)

    try:
        assert shown() == form(first)
        kept = (tmp_path / "key.pem").read_bytes()
        second = pair(tmp_path, "second")
        until(lambda: shown() == form(second))
        # The key of another certificate: nothing changes until both are there.
        (tmp_path / "key.pem").write_bytes(kept)
        assert not threading.Event().wait(0.2)
        assert shown() == form(second)
        third = pair(tmp_path, "third")
        until(lambda: shown() == form(third))
    finally:
        stop.set()
        thread.join()


def written(work: Callable[[], Any]) -> list[dict[str, Any]]:
    """The lines that are logged meanwhile."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    before = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        work()
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(before)
    return [json.loads(line) for line in text.getvalue().splitlines()]


def test_the_log_says_what_happened_and_nothing_private(start_server: StartServer) -> None:
    server = start_server(definition(), definition("strict", bad_rows="refuse"))

    def work() -> None:
        with server.client("ingest") as client:
            rows = "id,ts,place\n" + "".join(f"somebody{n},2024-01-01T00:10,elsewhere\n" for n in range(777))
            path = "/v1/streams/{}/events"
            headers = {"content-type": CSV}
            assert client.post(path.format("strict"), content=rows, headers=headers).status_code == 422
            assert client.post(path.format("visits"), content=rows, headers=headers).status_code == 202
        server.until_visible("visits", 1)
        server.service._failed("visits", KeyError("somebody7"))
        try:
            raise ValueError("somebody8")
        except ValueError:
            LOG.exception("unforeseen")

    lines = written(work)
    found = {(line["event"], line.get("stream"), line.get("error")) for line in lines}
    assert ("step published", "visits", None) in found
    assert ("batch refused", "strict", "UnknownValueError") in found or any(
        event == "batch refused" and stream == "strict" for event, stream, _ in found
    )
    assert ("closing failed", "visits", "KeyError") in found
    assert ("unforeseen", None, "ValueError") in found
    text = json.dumps(lines)
    assert not re.search(r"somebody|elsewhere|777|vst_", text)
    assert all({"time", "level", "event"} <= line.keys() for line in lines)


def test_metrics_tell_the_state_of_streams_sources_and_the_process(start_server: StartServer, tmp_path: Path) -> None:
    from veilstream.live.sources import open_source

    (tmp_path / "incoming").mkdir()
    source = open_source("directory", {"path": str(tmp_path / "incoming")})
    server = start_server(definition(), definition("other"), sources=(("visits", source),))
    server.until_visible("visits", 0)
    with server.client("operate", "ingest") as client:
        assert send(client, body(frame(*range(777)), CSV)).status_code == 202
        text = client.get("/metrics").text
    with server.client("operate", streams=("other",)) as client:
        of_one = client.get("/metrics").text
    for line in (
        "veilstream_leading 1",
        "veilstream_ready 1",
        'veilstream_worker_up{worker="closer"} 1',
        'veilstream_stream_up{stream="visits"} 1',
        'veilstream_source_up{source="directory-1",stream="visits"} 1',
        "veilstream_steps_published_total 2",
    ):
        assert line in text.splitlines()
    assert 'stream="other"' in of_one
    assert "visits" not in of_one
    assert "777" not in text
    sizes = [float(line.split()[1]) for line in text.splitlines() if re.match(r"\w+_bytes[ {]", line)]
    assert len(sizes) == 4
    assert all(size % (64 << 20) == 0 for size in sizes)
    assert str(tmp_path) not in text


def exposed() -> set[str]:
    """Every name that a server may expose."""
    names = {name if name.startswith("process_") else f"veilstream_{name}" for name in HELP}
    return names | {
        f"{name}_{end}" for name in names if name.endswith("_seconds") for end in ("bucket", "sum", "count")
    }


@pytest.mark.parametrize("file", ["alerts.yaml", "dashboard.json"])
def test_rules_and_pictures_speak_of_metrics_that_there_are(file: str) -> None:
    content: dict[str, Any] = import_module("yaml").safe_load((DEPLOY / file).read_text())
    rules = [rule for group in content.get("groups", ()) for rule in group["rules"]]
    panels = [target for panel in content.get("panels", ()) for target in panel["targets"]]
    asked = [str(one["expr"]) for one in (*rules, *panels)]
    assert len(asked) >= 10
    for expression in asked:
        used = set(re.findall(r"\b(?:veilstream|process)_\w+", expression))
        assert used <= exposed(), expression
        assert used or expression.startswith("up{")
        assert expression.count("(") == expression.count(")")
    # A histogram is asked for by its buckets alone.
    histograms = {"veilstream_release_delay_seconds", "veilstream_batch_seconds"}
    assert not histograms & {name for one in asked for name in re.findall(r"\bveilstream_\w+", one)}


def test_every_metric_that_is_exposed_is_explained(start_server: StartServer) -> None:
    server = start_server(definition())
    server.clock.tick += HOUR
    server.until_visible("visits", 0)
    with server.client("operate") as client:
        client.get("/v1/operate")
        text = client.get("/metrics").text
    found = {re.split(r"[ {]", line)[0] for line in text.splitlines() if not line.startswith("#")}
    assert len(found) > 15
    assert found <= exposed()


def test_the_pause_after_errors_grows_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def fail(_: Worker) -> None:
        raise KeyError("x")

    worker = Worker("w", fail)

    class Stop:
        def is_set(self) -> bool:
            return len(pauses) > 6

        def wait(self, seconds: float) -> None:
            pauses.append(seconds)

    monkeypatch.setattr(worker, "stopping", Stop())
    worker._run()
    assert pauses == [0.5, 1, 2, 4, 5, 5, 5]
    assert worker.failures == 7
