"""An in-memory object store with the semantics of S3 in pyarrow: no renames, no folders, objects appear on close."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from pyarrow import fs


class ObjectStore(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """Objects by name. While `refuse` is set, every upload fails with it after some bytes."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.refuse: OSError | None = None
        self.uploads = 0

    def filesystem(self) -> fs.FileSystem:
        """The store as a pyarrow filesystem."""
        return fs.PyFileSystem(self)

    def get_type_name(self) -> str:
        return "memory"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        base = selector.base_dir.rstrip("/") + "/"
        found = set()
        for name in self.objects:
            parts = name.removeprefix(base).split("/") if name.startswith(base) else []
            depths = range(1, len(parts) + 1) if selector.recursive else range(1, min(2, len(parts) + 1))
            found |= {base + "/".join(parts[:depth]) for depth in depths}
        return [self._info(path) for path in sorted(found)]

    def _info(self, path: str) -> fs.FileInfo:
        if path in self.objects:
            return fs.FileInfo(path, fs.FileType.File, size=len(self.objects[path]))
        folder = any(name.startswith(path.rstrip("/") + "/") for name in self.objects)
        return fs.FileInfo(path, fs.FileType.Directory if folder else fs.FileType.NotFound)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.objects[path])

    open_input_file = open_input_stream

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        del metadata
        return pa.PythonFile(_Upload(self, path), mode="w")

    def delete_file(self, path: str) -> None:
        del self.objects[path]

    def move(self, src: str, dest: str) -> None:
        self.objects[dest] = self.objects.pop(src)

    def delete_dir(self, path: str) -> None:
        raise NotImplementedError(path)

    create_dir = delete_dir_contents = delete_root_dir_contents = copy_file = open_append_stream = delete_dir


class _Upload(io.BytesIO):
    def __init__(self, store: ObjectStore, path: str) -> None:
        super().__init__()
        self._store, self._path, self._failed = store, path, False

    def write(self, piece: Any) -> int:
        if self._store.refuse is not None:
            self._failed = True
            raise self._store.refuse
        return super().write(piece)

    def close(self) -> None:
        if not self.closed and not self._failed:
            self._store.objects[self._path] = self.getvalue()
            self._store.uploads += 1
        super().close()
