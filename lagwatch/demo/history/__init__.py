"""Generates past polls of two fictional clusters, in the form of the agent's collectors, as data for dashboards.

It evaluates and joins nothing: the polls go through the agent's own pipeline, journal and shipping.
"""
