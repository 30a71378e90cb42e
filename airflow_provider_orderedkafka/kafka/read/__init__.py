"""Reading slices in order."""
