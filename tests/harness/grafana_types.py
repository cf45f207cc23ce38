"""Checks dashboards against Grafana's TypeScript types, with the compiler from npm, cached.

`python -m tests.harness.grafana_types` installs them: 25 MB, half a minute, once. It needs Node.js 18+ with npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lagwatch.demo.jars import cache_folder
from lagwatch.errors import LagwatchError

GRAFANA, TYPESCRIPT = "11.6.0", "5.8.3"
# Grafana leaves the type of a query to its data source: here it is a string.
# JSON has the values of string enums, not their names: the same types with the values in place of the enums.
_CHECK = """\
import type {{ AnnotationQuery, Dashboard, DataQuery }} from '@grafana/schema';
type Flux = DataQuery & {{ query: string }};
type Board = Omit<Dashboard, 'annotations'> & {{ annotations: {{ list: Array<AnnotationQuery<Flux>> }} }};
type Plain<T> = T extends string ? `${{T}}` : T extends object ? {{ [K in keyof T]: Plain<T[K]> }} : T;
export const dashboard: Plain<Board> = {json};
"""


def installed() -> Path:
    """The folder with both, installed if missing. Raises LagwatchError."""
    folder = cache_folder() / f"grafana-schema-{GRAFANA}-typescript-{TYPESCRIPT}"
    if (folder / "complete").exists():
        return folder
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        raise LagwatchError(f"{' and '.join(missing)} not found. Run: apt-get install nodejs npm")
    print(f"grafana types: installing @grafana/schema {GRAFANA} and typescript {TYPESCRIPT}", file=sys.stderr)
    fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
    fresh.mkdir(parents=True)
    packages = [f"@grafana/schema@{GRAFANA}", f"typescript@{TYPESCRIPT}"]
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", *packages]
    done = subprocess.run(command, cwd=fresh, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(fresh)
        raise LagwatchError(f"{' '.join(command)} failed: {done.stderr[-1000:]}")
    (fresh / "complete").touch()
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return folder


def complaints(dashboards: Mapping[str, str], folder: Path) -> list[str]:
    """The compiler errors of these dashboards (JSON by name), one per line."""
    packages = installed()
    (folder / "node_modules").symlink_to(packages / "node_modules")
    for name, json in dashboards.items():
        (folder / f"{name}.ts").write_text(_CHECK.format(json=json))
    compiler = packages / "node_modules/typescript/bin/tsc"
    options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--moduleResolution", "bundler"]
    done = subprocess.run(
        ["node", compiler, *options, "--module", "es2022", *(f"{name}.ts" for name in dashboards)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode and not lines:
        raise LagwatchError(f"tsc failed: {done.stderr[-1000:]}")
    return lines


if __name__ == "__main__":
    try:
        print(installed())
    except LagwatchError as error:
        sys.exit(f"error: {error}")
