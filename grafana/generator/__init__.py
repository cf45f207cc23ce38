"""Generates `grafana/dashboards/*.json` and the tables of `grafana/README.md` from the catalogue.

`python -m grafana.generator` writes them. It needs the `dev` extra; an installed agent does not.
"""
