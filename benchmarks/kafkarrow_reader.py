"""Reads a topic with kafkarrow and prints seconds, rows and falls in time. `pip install kafkarrow==0.1.1` first."""

import sys
import time


def main() -> None:
    from kafkarrow import ConsumerManager, SourceTopic

    servers, topic, records, most = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    begun, rows, falls, last = time.perf_counter(), 0, 0, None
    manager = ConsumerManager(config={"bootstrap.servers": servers}, topics=[SourceTopic.from_earliest(topic)])
    while rows < records and time.perf_counter() - begun < most:
        batch = manager.poll(timeout_ms=1000)
        if batch.num_rows:
            times = batch.column("timestamp").to_numpy(zero_copy_only=False)
            falls += int((times[1:] < times[:-1]).sum()) + int(last is not None and times[0] < last)
            last, rows = times[-1], rows + batch.num_rows
    print(time.perf_counter() - begun, rows, falls)


if __name__ == "__main__":
    main()
