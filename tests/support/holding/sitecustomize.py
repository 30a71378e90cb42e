"""Holds the process that starts with this folder on its path at one moment, so that a test can kill it just there.

Python imports a module of this name by itself. The moment comes as JSON in the environment: the `number`-th time that
`function` of the package's `file` is called, or returns (`event`), in this process, from when the file `once` is
there. Then the file `mark` is made, with the process's number, and the thread stands still. Everything else goes on as
it would, and so does whoever comes to this moment later: of two processes that come at once, one is held. It goes on
when the mark is gone.
"""

import json
import os
import sys
import threading
import time


def is_first_to_make(mark):
    own = f"{mark}.{os.getpid()}"
    with open(own, "w") as written:  # noqa: PTH123 - what starts with this imports no more than it must
        written.write(str(os.getpid()))
    try:
        os.link(own, mark)  # whoever sees it can read it, and only one can make it
    except FileExistsError:
        return False
    return True


def hold_at(moment):
    function, file = moment["function"], f"/{moment['file']}"
    counted = 0

    def look(frame, event, argument):
        nonlocal counted
        code = frame.f_code
        if event != moment["event"] or code.co_qualname != function:
            return
        if not code.co_filename.endswith(file) or not os.access(moment["once"], os.F_OK):
            return
        counted += 1
        if counted == moment["number"] and is_first_to_make(moment["mark"]):
            while os.access(moment["mark"], os.F_OK):
                time.sleep(0.02)

    threading.setprofile(look)
    sys.setprofile(look)


if "ORDEREDKAFKA_HOLD" in os.environ:
    hold_at(json.loads(os.environ["ORDEREDKAFKA_HOLD"]))
