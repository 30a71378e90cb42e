"""`orderedkafka demo`: a shop's flash sale, loaded in time order by the example DAG, checked event by event."""
