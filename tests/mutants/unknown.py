"""What is not known is taken for the harmless case: a question that got no answer, or may not be asked."""

PACKAGE = "airflow_provider_orderedkafka"
TOPICS = ("tests/property/test_attempts.py",)
CUTS = ("tests/property/test_cuts.py",)

MUTANTS = [
    (
        "a refusal of which a client heard before it was asked is of now",
        f"{PACKAGE}/kafka/clients/answers.py",
        {"if self._patience.waited <= RECHECK_AFTER:": "if False:"},
        ("tests/unit/test_answers.py",),
    ),
    (
        "a question whose answer was lost with its connection was answered",
        f"{PACKAGE}/kafka/lookup/topics.py",
        {"if found.offset == OFFSET_INVALID:": "if False:"},
        ("tests/integration/test_network.py::test_a_question_whose_answer_was_lost_is_asked_again",),
    ),
    (
        "what lies behind the end of a stream's batch is no matter",
        f"{PACKAGE}/spark/connector/stream.py",
        {"end = None if floor == NOWHERE.floor else Close(floor)": "end = None"},
        ("tests/integration/test_stream.py::test_a_task_warns_of_records_that_its_batch_was_not_to_reach",),
    ),
    (
        "a reader that follows goes on from where an outdated index says that it is",
        f"{PACKAGE}/reader.py",
        {"planned if self._last is None else": "planned if True else"},
        (
            "tests/integration/test_arrow_reader.py"
            "::test_what_comes_behind_records_that_an_outdated_index_did_not_know_is_late",
        ),
    ),
    (
        "what a task came to as it ended stands for rows, too",
        f"{PACKAGE}/spark/session/counting.py",
        {"rows.get(TaskWithProgress.__name__, 0) - ended": "rows.get(TaskWithProgress.__name__, 0)"},
        ("tests/unit/test_progress.py",),
    ),
    (
        "an output that does not answer has nothing of the batch",
        f"{PACKAGE}/spark/lanes/kafka_output.py",
        {
            "        found = self._found(note)\n": (
                "        try:\n"
                "            found = self._found(note)\n"
                "        except Exception:\n"
                "            found = Replay()\n"
            )
        },
        TOPICS,
    ),
    (
        "a note that cannot be read was never written",
        f"{PACKAGE}/spark/state/checkpoint.py",
        {
            '        found = None if newest is None else self._get(f"{NOTES}/{batch}/{newest}", Note)\n': (
                "        try:\n"
                '            found = None if newest is None else self._get(f"{NOTES}/{batch}/{newest}", Note)\n'
                "        except Exception:\n"
                "            return None\n"
            )
        },
        TOPICS,
    ),
    (
        "a ledger that cannot be read was never written",
        f"{PACKAGE}/loads/ledger.py",
        {
            "            newest = max(self._numbers(key), default=0)\n            text = ": (
                "            try:\n"
                "                newest = max(self._numbers(key), default=0)\n"
                "                self._state.get(_name(key, newest))\n"
                "            except Exception:\n"
                "                newest = 0\n"
                "            text = "
            )
        },
        TOPICS,
    ),
    (
        "an output whose settings may not be read is not compacted",
        f"{PACKAGE}/spark/lanes/kafka_output.py",
        {"if output.compacted is False]": "if output.compacted is not True]"},
        TOPICS,
    ),
    (
        "a partition of an output that the broker does not know has nothing of the batch",
        f"{PACKAGE}/kafka/replay/replays.py",
        {"if unheard_of := sorted(": "if unheard_of := [] and sorted("},
        TOPICS,
    ),
    (
        "where an output ended when a batch was noted it ended ever since",
        f"{PACKAGE}/core/batches.py",
        {"kept = {p: min(end, outputs.get(p, end)) for": "kept = {p: end for"},
        TOPICS,
    ),
    (
        "rows without a key may go to partitions that nobody has noted",
        f"{PACKAGE}/kafka/write/writing.py",
        {"if rows.source is not None and spreads:": "if rows.source is not None and one_by_one:"},
        TOPICS,
    ),
    (
        "dead letters may go to partitions that nobody has noted",
        f"{PACKAGE}/kafka/write/writing.py",
        {"self.settings.partitions.get(output.name, 0))\n": "0)\n"},
        TOPICS,
    ),
    (
        "a partition whose newest record is not told has none",
        f"{PACKAGE}/core/order/timeline.py",
        {"if len(newest) < len(self._asked):": "if False:"},
        CUTS,
    ),
    (
        "a slice ends where an index of before says, whatever is read of it",
        f"{PACKAGE}/kafka/read/slices.py",
        {"if piece.close is not None and found.size:": "if False:"},
        TOPICS,
    ),
    (
        "nothing belongs behind the end of a range",
        f"{PACKAGE}/spark/connector/stream.py",
        {"None if floor == NOWHERE.floor else": "None if self.loaded and span.end == self.loaded.end.offsets else"},
        TOPICS,
    ),
    (
        "a row limit ends where an index of before says",
        f"{PACKAGE}/spark/lanes/limit.py",
        {"self._is_exact(self.cut(batch, found), left)": "True"},
        TOPICS,
    ),
    (
        "what belongs behind the end of a batch is not counted",
        f"{PACKAGE}/spark/lanes/kafka_lanes.py",
        {"may_be_out_of_order=tally.beyond": "may_be_out_of_order=0"},
        TOPICS,
    ),
    (
        "what an attempt counts late stands for what a newer one has written",
        f"{PACKAGE}/spark/state/checkpoint.py",
        {"if newest and newest >= max(": "if newest or max("},
        ("tests/unit/test_batches.py",),
    ),
    (
        "an attempt that writes what another one has noted does not note it",
        f"{PACKAGE}/spark/application/batch_loop.py",
        {"if note != self._note:": "if note != found:"},
        ("tests/unit/test_batches.py",),
    ),
    (
        "an output on another cluster is the one that a batch was begun on",
        f"{PACKAGE}/core/batches.py",
        {'    "cluster": "the output': '    "lane": "the output'},
        ("tests/unit/test_checkpoint.py",),
    ),
    (
        "what a batch was begun with is not compared by hand",
        f"{PACKAGE}/spark/state/checkpoint.py",
        {'changes = (job.changes(replace(self._job, written="")), ': 'changes = ("", '},
        ("tests/unit/test_checkpoint.py",),
    ),
    (
        "a batch that another attempt begins meanwhile was begun with the settings of this one",
        f"{PACKAGE}/spark/state/checkpoint.py",
        {"and found.setup != self._setup.key:": "and False:"},
        ("tests/unit/test_checkpoint.py",),
    ),
    (
        "the note of an attempt that stood still replaces that of a newer one",
        f"{PACKAGE}/spark/application/attempt.py",
        {"        self._checkpoint.hold(self._lease.term)\n": ""},
        ("tests/unit/test_attempt.py",),
    ),
    (
        "a place that a template was rendered to is not compared",
        f"{PACKAGE}/spark/state/checkpoint.py",
        {'job.changes(replace(self._job, written=""))': "job.changes(self._job)"},
        ("tests/unit/test_checkpoint.py",),
    ),
    (
        "settings that were deleted fit",
        f"{PACKAGE}/spark/state/checkpoint.py",
        {
            "        if begun is None or job is None:\n            raise": (
                "        if begun is None or job is None:\n            return\n            raise"
            )
        },
        ("tests/unit/test_checkpoint.py",),
    ),
]
