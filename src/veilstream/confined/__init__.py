"""Work on bytes that nobody vouches for, in child processes with limits of memory and time.

Libraries that read compressed columns end the process on some damaged files, and small files can ask for any amount of
memory. So whoever decodes does it in a child: the child dies, its input is refused, and the next child is forked in
milliseconds from a process that has loaded the libraries and never sees any input.
"""

from veilstream.confined.parent import Allowance, Child, UndecodableError, confined
from veilstream.confined.pool import CrowdedError, Pool

__all__ = ["Allowance", "Child", "CrowdedError", "Pool", "UndecodableError", "confined"]
