"""The running agent: scheduling, jobs, logging and its own metrics."""
