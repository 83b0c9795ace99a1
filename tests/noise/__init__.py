"""Tests of veilstream.noise."""
