"""What is told of a load outside its log and its ledger."""
