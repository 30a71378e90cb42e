"""A module of transforms that cannot be imported."""

WRONG = 1 // 0
