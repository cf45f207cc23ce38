"""Builds influxd from its Go module and the crates of its Flux library, once, into the cache.

No package registry offers a built influxd 2.x. `python -m tests.harness.influxd_build` builds it if none is found;
it needs Go 1.23 or later, Rust with cargo, a C compiler and pkg-config, and takes about ten minutes of two cores.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lagwatch.demo.influxd import FLUX_VERSION, VERSION, cached_influxd, find_influxd
from lagwatch.errors import LagwatchError

_MODULES = {
    "influxdb": f"github.com/influxdata/influxdb/v2@v{VERSION}",
    "flux": f"github.com/influxdata/flux@v{FLUX_VERSION}",
}
_NEEDED = {
    "go": "install Go 1.23 or later",
    "cargo": "install Rust with rustup",
    "cc": "apt-get install gcc",
    "pkg-config": "apt-get install pkg-config",
}


def influxd() -> Path:
    """The path of an influxd, built if missing. Raises LagwatchError."""
    found = find_influxd()
    if found is None:
        missing = [f"{name} ({how})" for name, how in _NEEDED.items() if shutil.which(name) is None]
        if missing:
            raise LagwatchError(
                "no influxd, and it cannot be built without " + ", ".join(missing) + "; or name one by LAGWATCH_INFLUXD"
            )
        _say(f"building influxd {VERSION} (about ten minutes, once; kept in {cached_influxd().parent})")
        with tempfile.TemporaryDirectory(prefix="lagwatch-influxd-build-") as folder:
            _build(Path(folder))
        found = cached_influxd()
    return found


def _build(folder: Path) -> None:
    started = time.monotonic()
    sources = {name: _source(module, folder / name) for name, module in _MODULES.items()}
    libflux = sources["flux"] / "libflux"
    _say("building Flux's library with cargo")
    # The module pins an old toolchain: use the installed one and allow its new warnings.
    toolchain = {"RUSTFLAGS": "--cap-lints allow", **_installed_toolchain()}
    _run(["cargo", "build", "--release", "--locked"], libflux, toolchain)
    library = folder / "lib"
    library.mkdir()
    shutil.copy(libflux / "target/release/libflux.a", library)
    (library / "flux.pc").write_text(
        f"Name: Flux\nVersion: {FLUX_VERSION}\nDescription: Flux\n"
        f"Libs: -L{library} -lflux -ldl -lm -lpthread\nCflags: -I{libflux / 'include'}\n"
    )
    _say("building influxd with go")
    binary = folder / "influxd"
    tags = "sqlite_foreign_keys,sqlite_json"
    _run(
        ["go", "build", "-tags", tags, "-o", str(binary), "./cmd/influxd"],
        sources["influxdb"],
        {"PKG_CONFIG_PATH": str(library)},
    )
    target = cached_influxd()
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(binary, target.with_suffix(".new"))
    target.with_suffix(".new").rename(target)  # atomic
    _say(f"influxd is ready after {(time.monotonic() - started) / 60:.0f} minutes")


def _source(module: str, target: Path) -> Path:
    """A writable copy of a module: `go install` rejects the replace line in its go.mod."""
    _say(f"fetching {module}")
    (target.parent / "go.mod").write_text("module fetch\n\ngo 1.22\n")
    answer = _run(["go", "mod", "download", "-json", module], target.parent, {})
    shutil.copytree(json.loads(answer)["Dir"], target)
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    return target


def _installed_toolchain() -> dict[str, str]:
    if shutil.which("rustup") is None:
        return {}
    named = subprocess.run(["rustup", "default"], capture_output=True, text=True, check=False).stdout.split()
    return {"RUSTUP_TOOLCHAIN": named[0]} if named else {}


def _run(command: list[str], folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LagwatchError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    return done.stdout


def _say(what: str) -> None:
    print(f"influxd: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        print(influxd())
    except LagwatchError as error:
        sys.exit(f"error: {error}")
