"""A shop's flash sale, loaded in time order by the example DAG, and checked event by event: `make demo`."""


class DemoError(Exception):
    """The demo failed: the message says why."""
