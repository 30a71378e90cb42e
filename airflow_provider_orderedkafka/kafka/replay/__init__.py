"""What of a batch landed already, and what is missing."""
