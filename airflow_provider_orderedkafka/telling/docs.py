"""The documentation of a load's tasks, as Airflow shows it with each one."""

from typing import Final

WAIT: Final = """\
Waits, deferred, until there is enough to load: `min_offsets` offsets, or anything at all once `max_delay` has passed.
Its log says what is there, and when the delay runs out. A run that a person started waits for nothing, unless asked to,
and one that waits meanwhile gives way to it.

**Cleared**, it looks again. If this run has a range already, there is nothing to wait for.
"""

RESOLVE: Final = """\
Decides which offsets this run loads, and stores that range before anything is read. The XCom `in_words` and the
log have it by partition, with times in UTC. Skipped if there is nothing to load; the XCom `skipped` says why.

**Cleared**, it gives the same range. A range that an ended run left open is taken over.
"""

LOAD: Final = """\
Runs Spark on the range: in time order, batch by batch. The log says how far it is, after each batch and, while a long
one runs, every 10 seconds; so does `progress` in the task's state.

**Cleared or retried**, it goes on where the last attempt stopped, and leaves out rows that are in the output already.
Once the range is loaded, it starts nothing; once it is committed, it is skipped.
"""

COMMIT: Final = """\
Moves the ledger to where Spark stopped, if its report proves that everything before is loaded. Updates the consumer
group `orderedkafka.<load>` and emits the output's asset event. The log has the numbers, and the lag that is left.

A record is *late* if its timestamp is below its *order time*: the highest timestamp so far in its partition, and never
below the time up to which the run before has loaded. It keeps its place, and is flagged.

**Cleared**, it moves nothing twice; it emits the event again.
"""

AUDIT: Final = """\
Reads the output of the committed range again, and its source, and says whether what is in the one is what was in the
other. It moves and changes nothing. The log and the XCom `audit` have what was found, with the places.

It fails if something was found, and a retry would find the same. It is *skipped* if something cannot be known any more;
the XCom `skipped` says why.

**Cleared**, it reads both once more.
"""

OPERATIONS: Final = """\
Shows the ledger of a load, abandons its open range, or rewinds it. Unless confirmed, it only says what would change.

**Cleared**, it does the same once more, from where the ledger stands by then.
"""
