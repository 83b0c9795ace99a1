"""Engines that read and prepare events; bounding is the same code for all of them."""
