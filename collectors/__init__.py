"""Collectors: each top-level module is one; the packages hold the clients, decoders and row builders they share."""
