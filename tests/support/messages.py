"""What a message has to name: values, places, settings, commands. How it is worded is for `mistakes.txt` alone."""

import re


def naming(said: str) -> str:
    """A pattern for messages that have these parts, which ` ... ` divides, in their order."""
    return "(?s)" + ".*".join(map(re.escape, said.split(" ... ")))


def says(message: str, said: str) -> bool:
    """Whether a message has these parts, which ` ... ` divides, in their order."""
    return re.search(naming(said), message) is not None
