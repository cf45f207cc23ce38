"""Collectors: one file per family of things asked of the outside."""
