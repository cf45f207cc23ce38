"""The archive's filesystem: files that are there whole or not at all, and what goes wrong with it in words.

A local folder, or anything pyarrow reaches (`s3://`, `gs://`, `hdfs://`, `file://`). Paths are below the root.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from lagwatch.errors import SinkError
from lagwatch.sinks.archive.layout import old_path, part_path, unreadable_path

log = logging.getLogger(__name__)

_RENAMING = ("local", "hdfs", "mock")  # the others put an object whole, and rename by copying it
_PIECE_BYTES = 4 * 2**20
_WORDS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
    errno.EIO: "the disk fails (I/O error)",
    errno.ESTALE: "the network volume is gone (stale file handle)",
}


class ArchiveStore:
    """Files below one root. The constructor does not connect; the first call does. Calls raise SinkError."""

    def __init__(self, url: str, filesystem: fs.FileSystem | None = None, spool: Path | None = None) -> None:
        self.url = url
        self._given = filesystem
        self._fs: fs.FileSystem | None = None
        self._root = url
        self._folder = None if filesystem is not None else _local_folder(url)  # the root on this machine, if it is here
        self._spool = spool
        self._mount: Path | None = None

    @property
    def spool_folder(self) -> Path:
        """Where large temporary files may lie: on this machine."""
        return self._spool or self._folder or Path(tempfile.gettempdir())

    @property
    def renames(self) -> bool:
        """Whether files are written under another name first; otherwise they appear whole under their own."""
        return self.filesystem.type_name in _RENAMING

    @property
    def filesystem(self) -> fs.FileSystem:
        """The filesystem under the root."""
        if self._fs is None:
            self._fs = self._open()
        return self._fs

    def _open(self) -> fs.FileSystem:
        if self._given is not None:
            found, self._root = self._given, self.url
        elif self._folder is not None:
            found, self._root = fs.LocalFileSystem(), str(self._folder)
        else:
            with self.told():
                found, self._root = fs.FileSystem.from_uri(self.url)
        while isinstance(found, fs.SubTreeFileSystem):
            found, self._root = found.base_fs, f"{found.base_path.rstrip('/')}/{self._root.strip('/')}"
        self._root = self._root.rstrip("/")
        if isinstance(found, fs.LocalFileSystem):
            self._folder = Path(self._root)
        return found

    def ready(self) -> None:
        """See that the root is there. A local one is made once; one that vanished later is waited for.

        To make it again would fill the disk below a volume that is only not mounted.
        """
        _ = self.filesystem
        if self._folder is None:
            return
        with self.told():
            if self._mount is None:
                if not self._folder.is_dir():
                    self._folder.mkdir(parents=True)
                    log.info("archive folder made folder=%s", self._folder)
                self._mount = _mount_of(self._folder)
        if not self._folder.is_dir():
            raise SinkError(f"archive folder {self._folder} is gone; create it again or mount it", retriable=True)
        if not self._mount.is_mount():
            raise SinkError(
                f"archive folder {self._folder}: nothing is mounted at {self._mount} any more; mount it", retriable=True
            )

    @contextlib.contextmanager
    def told(self, path: str = "") -> Iterator[None]:
        """What the filesystem raises becomes a SinkError that says what and where."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            where = f"{self.url.rstrip('/')}/{path}" if path else self.url
            raise SinkError(f"archive {where}: {explain(error)}", retriable=True) from error

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        with self.told(path):
            return bool(self.filesystem.get_file_info(self.full(path)).type == fs.FileType.File)

    def children(self, path: str = "", *, recursive: bool = False) -> list[Any]:
        """What a folder holds, as pyarrow's FileInfo; nothing when there is no such folder."""
        with self.told(path):
            selector = fs.FileSelector(self.full(path), recursive=recursive, allow_not_found=True)
            return list(self.filesystem.get_file_info(selector))

    def below(self, full: str) -> str:
        """The path below the root of a FileInfo."""
        return full.removeprefix(self._root.lstrip("/") if not full.startswith("/") else self._root).lstrip("/")

    def full(self, path: str) -> str:
        """The filesystem's own name of a path."""
        _ = self.filesystem  # opening it tells the root
        return f"{self._root}/{path}" if path else self._root

    def open_copy(self, path: str) -> Any:
        """A file to read, on this machine: whatever fails after this is the file's own fault, not the network's."""
        with self.told(path):
            if self._folder is not None:
                return self.filesystem.open_input_file(self.full(path))
            copy = tempfile.TemporaryFile(dir=self.spool_folder)  # noqa: SIM115
            with self.filesystem.open_input_stream(self.full(path)) as source:
                _pour(source, copy)
            copy.seek(0)
            return copy

    def write_whole(self, path: str, fill: Callable[[Any], None]) -> None:
        """Write a file with `fill(stream)`. It appears under its name complete and durable, or not at all."""
        with self.told(path):
            if self.renames:
                self._write_and_rename(path, fill)
            else:
                self._put(path, fill)

    def _write_and_rename(self, path: str, fill: Callable[[Any], None]) -> None:
        part = part_path(path)
        self._make_folder(path.rpartition("/")[0])
        try:
            with self.filesystem.open_output_stream(self.full(part)) as stream:
                fill(stream)
            if self._folder is not None:
                _sync(self._folder / part)
            self._rename_over(part, path)
        except BaseException:
            with contextlib.suppress(OSError):  # a full disk gets its space back
                self.filesystem.delete_file(self.full(part))
            raise
        if self._folder is not None:
            _sync((self._folder / path).parent)

    def _rename_over(self, part: str, path: str) -> None:
        """HDFS does not rename over a file: the old one waits aside until the new one has its place."""
        replaced = self._folder is None and self.exists(path)
        if replaced:
            self.filesystem.move(self.full(path), self.full(old_path(path)))
        self.filesystem.move(self.full(part), self.full(path))
        if replaced:
            self.filesystem.delete_file(self.full(old_path(path)))

    def _put(self, path: str, fill: Callable[[Any], None]) -> None:
        """By way of a local file: closing a stream to an object store makes the object, also after an error."""
        with tempfile.TemporaryFile(dir=self.spool_folder) as whole:
            fill(whole)
            whole.seek(0)
            with self.filesystem.open_output_stream(self.full(path)) as stream:
                _pour(whole, stream)

    def _make_folder(self, path: str) -> None:
        if self._folder is None:
            self.filesystem.create_dir(self.full(path), recursive=True)
            return
        folder = self._folder
        for name in path.split("/"):  # not `parents=True`: that would make a vanished root again
            folder /= name
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                _sync(folder.parent)

    def move(self, path: str, to: str) -> None:
        """Rename a file."""
        with self.told(path):
            self.filesystem.move(self.full(path), self.full(to))

    def set_aside(self, path: str, reason: str) -> None:
        """Give a file that cannot be read a name that no reader looks at."""
        log.warning('archive file unreadable, set aside file=%s reason="%s"', self.full(path), reason)
        self.move(path, unreadable_path(path))

    def delete(self, path: str) -> None:
        """Remove a file."""
        with self.told(path):
            self.filesystem.delete_file(self.full(path))

    def delete_empty_folder(self, path: str) -> None:
        """Remove a folder if nothing is in it."""
        if self._folder is not None:
            with contextlib.suppress(OSError):  # rmdir itself refuses when something came in between
                (self._folder / path).rmdir()
        elif not self.children(path):
            with self.told(path), contextlib.suppress(FileNotFoundError):
                self.filesystem.delete_dir(self.full(path))


def explain(error: Exception) -> str:
    """An error of a filesystem in words."""
    number = getattr(error, "errno", None)
    if number in _WORDS:
        return _WORDS[number]
    if number == errno.ENOENT:
        return "a folder is gone"
    return f'"{str(error).splitlines()[0] if str(error) else type(error).__name__}"'


def _local_folder(url: str) -> Path | None:
    if url.startswith("file:"):
        return Path(unquote(urlsplit(url).path))
    return None if "://" in url else Path(url).absolute()


def _mount_of(folder: Path) -> Path:
    folder = folder.resolve()
    return next(place for place in (folder, *folder.parents) if place.is_mount())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _pour(source: Any, into: Any) -> None:
    while piece := source.read(_PIECE_BYTES):
        into.write(piece)
