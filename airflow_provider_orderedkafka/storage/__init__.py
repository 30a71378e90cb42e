"""Small text documents in a location, whatever it is on."""
