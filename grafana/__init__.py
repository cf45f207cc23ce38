"""Dashboards, and the generator that makes them."""
