"""How Linux divides the cores among the threads of processes that train together.

Every message of a run over several processes is received by a thread of its own. By default this thread interrupts the
one that computes, each time; in a batch process it waits until that one waits for it.
"""

from __future__ import annotations

import os


def schedule_as_batch() -> bool:
    """Have this process and its later threads not interrupt each other; return whether that was possible."""
    if not hasattr(os, "SCHED_BATCH") or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False  # another system, or the user has chosen a policy
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:  # not permitted in some containers
        return False
    return True
