"""lagwatch installed by the README's commands: from a copy of the checkout into an empty virtual environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.harness.cli import Ran

ROOT = Path(__file__).parents[2]
VENV_OF_README = "/opt/lagwatch"

# What a clone does not have, and what would let the command find the checkout.
_NOT_CLONED = (".git", ".venv", "dist", "lagwatch-data", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")
_LEADS_BACK = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class InstalledLagwatch:
    """A virtual environment with lagwatch in it, and the wheel it came from."""

    venv: Path
    wheel: Path
    folder: Path  # where its commands run; outside any checkout

    def run(self, *arguments: object, env: Mapping[str, str] | None = None) -> Ran:
        """Run `lagwatch` to its end."""
        return self._start(self.venv / "bin" / "lagwatch", *arguments, env=env)

    def python(self, code: str) -> str:
        """What a program prints, run by the environment's own Python."""
        ran = self._start(self.venv / "bin" / "python", "-c", code)
        assert ran.code == 0, ran.stderr
        return ran.stdout.strip()

    def packages(self) -> dict[str, str]:
        """The version of every installed package."""
        ran = self._start(self.venv / "bin" / "pip", "list", "--format", "json")
        return {package["name"].lower().replace("_", "-"): package["version"] for package in json.loads(ran.stdout)}

    def _start(self, program: Path, *arguments: object, env: Mapping[str, str] | None = None) -> Ran:
        command = [str(program), *(str(argument) for argument in arguments)]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**clean_environment(), **(env or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


def clean_environment() -> dict[str, str]:
    """The environment without what would let Python import the checkout."""
    return {name: value for name, value in os.environ.items() if name not in _LEADS_BACK}


def install_commands() -> str:
    """The shell commands in the README that build the wheel and install it."""
    (section,) = re.findall(r"(?ms)^## Install\n(.*?)^## ", (ROOT / "README.md").read_text())
    (commands,) = [block for block in re.findall(r"(?ms)^```\n(.*?)^```$", section) if "pip wheel" in block]
    return str(commands)


def install(folder: Path) -> InstalledLagwatch:
    """Follow the README in a copy of the checkout, then delete the copy: nothing of it may be needed any more."""
    clone, venv, wheels, outside = (folder / name for name in ("clone", "venv", "wheels", "outside"))
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*_NOT_CLONED))
    outside.mkdir()
    commands = install_commands().replace("python3 ", f"{sys.executable} ").replace(VENV_OF_README, str(venv))
    done = subprocess.run(
        ["bash", "-euxc", commands],
        cwd=clone,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, f"the README's commands failed:\n{done.stdout}{done.stderr}"
    shutil.move(clone / "dist", wheels)
    shutil.rmtree(clone)
    (wheel,) = wheels.glob("lagwatch-*.whl")
    return InstalledLagwatch(venv, wheel, outside)
