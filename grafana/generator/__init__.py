"""Makes `grafana/dashboards/*.json` and the tables of `grafana/README.md` from the catalogue.

`python -m grafana.generator` writes them. It needs the `dev` extra; nothing that runs at an operator's does.
"""
