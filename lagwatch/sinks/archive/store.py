"""Reads and writes the archive's files, atomically, on a local folder or any filesystem pyarrow supports.

URLs may be `s3://`, `gs://`, `hdfs://` or `file://`. Paths are relative to the root.
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

_RENAMING = ("local", "hdfs", "mock")  # the others write an object atomically, and rename by copying
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
        self._folder = None if filesystem is not None else _local_folder(url)  # the root, if it is local
        self._spool = spool
        self._mount: Path | None = None

    @property
    def spool_folder(self) -> Path:
        """A local folder for large temporary files."""
        return self._spool or self._folder or Path(tempfile.gettempdir())

    @property
    def renames(self) -> bool:
        """Whether files are written to a temporary path and renamed; otherwise the filesystem writes atomically."""
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
            with self.errors_explained():
                found, self._root = fs.FileSystem.from_uri(self.url)
        while isinstance(found, fs.SubTreeFileSystem):
            found, self._root = found.base_fs, f"{found.base_path.rstrip('/')}/{self._root.strip('/')}"
        self._root = self._root.rstrip("/")
        if isinstance(found, fs.LocalFileSystem):
            self._folder = Path(self._root)
        return found

    def ready(self) -> None:
        """Check that the root exists. A local root is created once; if it vanishes later, raises a retriable SinkError.

        Creating it again could fill the disk below an unmounted volume.
        """
        _ = self.filesystem
        if self._folder is None:
            return
        with self.errors_explained():
            if self._mount is None:
                if not self._folder.is_dir():
                    self._folder.mkdir(parents=True)
                    log.info("archive folder created folder=%s", self._folder)
                self._mount = _mount_of(self._folder)
        if not self._folder.is_dir():
            raise SinkError(f"archive folder {self._folder} no longer exists; create it or mount it", retriable=True)
        if not self._mount.is_mount():
            raise SinkError(
                f"archive folder {self._folder}: {self._mount} is no longer mounted; mount it", retriable=True
            )

    @contextlib.contextmanager
    def errors_explained(self, path: str = "") -> Iterator[None]:
        """Turns errors of the filesystem into a SinkError with the path and the reason in words."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            where = f"{self.url.rstrip('/')}/{path}" if path else self.url
            raise SinkError(f"archive {where}: {explain(error)}", retriable=True) from error

    def exists(self, path: str) -> bool:
        """Whether the file exists."""
        with self.errors_explained(path):
            return bool(self.filesystem.get_file_info(self.full(path)).type == fs.FileType.File)

    def children(self, path: str = "", *, recursive: bool = False) -> list[Any]:
        """The entries of a folder as pyarrow's FileInfo; none if it does not exist."""
        with self.errors_explained(path):
            selector = fs.FileSelector(self.full(path), recursive=recursive, allow_not_found=True)
            return list(self.filesystem.get_file_info(selector))

    def below(self, full: str) -> str:
        """The path relative to the root of a FileInfo's path."""
        return full.removeprefix(self._root.lstrip("/") if not full.startswith("/") else self._root).lstrip("/")

    def full(self, path: str) -> str:
        """The filesystem's full path of a path."""
        _ = self.filesystem  # opening it sets the root
        return f"{self._root}/{path}" if path else self._root

    def open_copy(self, path: str) -> Any:
        """A local copy of a file to read: later errors come from the file itself, not from the network."""
        with self.errors_explained(path):
            if self._folder is not None:
                return self.filesystem.open_input_file(self.full(path))
            copy = tempfile.TemporaryFile(dir=self.spool_folder)  # noqa: SIM115
            with self.filesystem.open_input_stream(self.full(path)) as source:
                _copy(source, copy)
            copy.seek(0)
            return copy

    def write_whole(self, path: str, fill: Callable[[Any], None]) -> None:
        """Write a file with `fill(stream)`. It appears complete and durable, or not at all."""
        with self.errors_explained(path):
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
            with contextlib.suppress(OSError):  # frees the space on a full disk
                self.filesystem.delete_file(self.full(part))
            raise
        if self._folder is not None:
            _sync((self._folder / path).parent)

    def _rename_over(self, part: str, path: str) -> None:
        """Rename over an existing file. HDFS cannot, so the old file is moved away first and deleted afterwards."""
        replaced = self._folder is None and self.exists(path)
        if replaced:
            self.filesystem.move(self.full(path), self.full(old_path(path)))
        self.filesystem.move(self.full(part), self.full(path))
        if replaced:
            self.filesystem.delete_file(self.full(old_path(path)))

    def _put(self, path: str, fill: Callable[[Any], None]) -> None:
        """Write by way of a local file: closing a stream to an object store creates the object even after an error."""
        with tempfile.TemporaryFile(dir=self.spool_folder) as whole:
            fill(whole)
            whole.seek(0)
            with self.filesystem.open_output_stream(self.full(path)) as stream:
                _copy(whole, stream)

    def _make_folder(self, path: str) -> None:
        if self._folder is None:
            self.filesystem.create_dir(self.full(path), recursive=True)
            return
        folder = self._folder
        for name in path.split("/"):  # not `parents=True`, which would recreate a vanished root
            folder /= name
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                _sync(folder.parent)

    def move(self, path: str, to: str) -> None:
        """Rename a file."""
        with self.errors_explained(path):
            self.filesystem.move(self.full(path), self.full(to))

    def set_aside(self, path: str, reason: str) -> None:
        """Rename a file that cannot be read to a name that readers skip."""
        log.warning('archive file unreadable, set aside file=%s reason="%s"', self.full(path), reason)
        self.move(path, unreadable_path(path))

    def delete(self, path: str) -> None:
        """Delete a file."""
        with self.errors_explained(path):
            self.filesystem.delete_file(self.full(path))

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder if it is empty."""
        if self._folder is not None:
            with contextlib.suppress(OSError):  # rmdir itself fails if the folder is no longer empty
                (self._folder / path).rmdir()
        elif not self.children(path):
            with self.errors_explained(path), contextlib.suppress(FileNotFoundError):
                self.filesystem.delete_dir(self.full(path))


def explain(error: Exception) -> str:
    """The reason of a filesystem error in words."""
    number = getattr(error, "errno", None)
    if number in _WORDS:
        return _WORDS[number]
    if number == errno.ENOENT:
        return "a folder no longer exists"
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


def _copy(source: Any, into: Any) -> None:
    while piece := source.read(_PIECE_BYTES):
        into.write(piece)
