"""Judgements: pure functions from columns to columns."""
