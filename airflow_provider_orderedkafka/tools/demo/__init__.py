"""`orderedkafka demo`: load a shop's events in time order with the example DAG, and check each of them."""
