"""Tests that kill and stop a real broker under load and check what it kept."""
