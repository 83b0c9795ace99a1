"""Exact privacy loss of random small programs: what the accountant admits, compared with what is really lost.

Other tests recompute windows *from the charges*, where a wrong charge goes unseen. Here the charges are not looked at.
A program asks a real Meter any mixture of questions (``programs``), its law is computed from the noise that the Meter
asked for (``running``, ``losses``), and the largest loss over all people who may be placed in a window is compared with
the guarantee (``search``). PROOF.md names the theorem behind each kind of question.

>>> from veilstream.audit.exact.search import attack_programs
>>> attack_programs(20, seed=1).passed
True
"""
