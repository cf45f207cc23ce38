"""Processes what collectors return: completes it with the last known values, evaluates it and detects changes."""
