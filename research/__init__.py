"""The papers' experiments, run again under corrected guarantees.

A folder for each paper (``dsat``, ``fast``, ``grouping``, ``delta_neighbourhood``, ``copula``, ``personalised``), what
they share (``figure``, ``grid``, ``range_error``, ``verdicts``, ``page``, ``reproduce``), and their data
(``workloads``, ``datasets``, ``tables``). ``python -m research list`` shows the figures.
"""
