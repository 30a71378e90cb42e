"""For a person at a desk: commands, doctor, a broker."""
