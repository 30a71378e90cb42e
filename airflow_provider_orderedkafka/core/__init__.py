"""The pure core: positions, cuts, pacing, limits, documents. No I/O and no clock."""
