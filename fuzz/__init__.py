"""A structure-aware fuzzer of the command line, its files, ledgers and the Python API: ``python -m fuzz``.

Every input is a :class:`~fuzz.case.Case` made from a seed and a number, so that it can be made again; what fails is
kept as JSON and replayed by the tests.
"""
