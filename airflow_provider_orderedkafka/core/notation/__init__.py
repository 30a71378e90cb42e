"""How people write durations, starts and topics."""
