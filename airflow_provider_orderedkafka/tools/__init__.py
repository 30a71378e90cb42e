"""For a person at a desk: commands, demo, doctor, a broker."""
