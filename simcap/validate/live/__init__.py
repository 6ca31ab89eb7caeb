"""Predictions against a real load on this machine: play a scenario's requests, simulate the same requests, compare."""
