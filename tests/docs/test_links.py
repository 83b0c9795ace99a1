"""Links that leave the site have the form of an address; whether they answer is for `python -m website links`."""

from __future__ import annotations

import pytest

from website.links import external_links, fault


def test_every_external_link_has_the_form_of_an_address() -> None:
    links = external_links()
    assert len(links) > 10
    assert not {address: why for address in links if (why := fault(address)) is not None}


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org",
        "https://localhost/x",
        "https://example.org/a.",
        "https://example.org//a",
        "https://e.org/a b",
    ],
)
def test_a_wrong_form_is_found(address: str) -> None:
    assert fault(address)
