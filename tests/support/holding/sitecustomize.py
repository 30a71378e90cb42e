"""Holds the process that starts with this folder on its path at one moment, so that a test can kill it just there.

Python imports a module of this name by itself. The moment comes as JSON in the environment: the `number`-th time that
`function` of a module of the package is called, or returns (`event`), in this process, from when the file `once` is
there. Then the file `mark` is made, with the process's number, and the thread stands still. Everything else goes on as
it would, and so does whoever comes to this moment later.
"""

import json
import os
import sys
import threading
import time

PACKAGE = "/airflow_provider_orderedkafka/"


def hold_at(moment):
    path, _, function = moment["function"].rpartition(":")
    counted = 0

    def look(frame, event, argument):
        nonlocal counted
        code = frame.f_code
        if event != moment["event"] or code.co_name != function:
            return
        if not code.co_filename.endswith(PACKAGE + path) or not os.path.exists(moment["once"]):  # noqa: PTH110
            return
        counted += 1
        if counted == moment["number"] and not os.path.exists(moment["mark"]):  # noqa: PTH110
            with open(f"{moment['mark']}.new", "w") as mark:  # noqa: PTH123
                mark.write(str(os.getpid()))
            os.replace(f"{moment['mark']}.new", moment["mark"])  # noqa: PTH105 - whoever sees it can read it
            time.sleep(3_600)

    threading.setprofile(look)
    sys.setprofile(look)


if "ORDEREDKAFKA_HOLD" in os.environ:
    hold_at(json.loads(os.environ["ORDEREDKAFKA_HOLD"]))
