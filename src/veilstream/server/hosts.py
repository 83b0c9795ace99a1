"""By which names a server may be addressed: a page of another site must not reach it under a name of its own."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

LOCAL: Final = "localhost"
HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9_.-]+?)\.?)(?::\d{1,5})?", re.IGNORECASE)


def host_name(header: str) -> str | None:
    """The name in a Host header, without its port; None if there is none that a client may send.

    >>> host_name("[::1]:8000"), host_name("Example.org.:80"), host_name("[::1].evil")
    ('::1', 'example.org', None)
    """
    found = HOST.fullmatch(header)
    return None if found is None else (found[1] or found[2]).lower()


def is_allowed(header: str, hosts: tuple[str, ...]) -> bool:
    """Whether a server with these names answers to a Host header.

    It answers to its names, and on the machine itself to every address of the loop. Where no names are given it answers
    to all addresses: a site that turns its own name into the address of this server still sends its name.

    >>> [is_allowed(one, ("data.example",)) for one in ("data.example", "127.0.0.1:8765", "10.0.0.7", "evil.example")]
    [True, True, False, False]
    >>> [is_allowed(one, ()) for one in ("localhost", "10.0.0.7", "evil.example")]
    [True, True, False]
    """
    name = host_name(header)
    if name is None:
        return False
    if name == LOCAL or name in hosts:
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not hosts
