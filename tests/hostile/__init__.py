"""Tests that send a broker what no honest client would."""
