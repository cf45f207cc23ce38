"""Grafana dashboards and their generator."""
