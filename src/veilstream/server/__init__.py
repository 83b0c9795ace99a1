"""The service: events come in over HTTP, steps close by the public clock, releases go out, a page shows them."""
