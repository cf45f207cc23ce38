"""A made-up past of two clusters, as the agent's collectors would have brought it: something for boards to show.

Nothing here is judged or joined: polls go through the agent's own pipeline, journal and shipping.
"""
