"""Verdicts: pure functions from columns to columns, and the table of rules (`rules.py`)."""
