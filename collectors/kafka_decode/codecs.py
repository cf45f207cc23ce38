"""Decompresses record batches. pyarrow provides all of Kafka's codecs."""

from __future__ import annotations

import struct

import pyarrow as pa

_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_STREAMED = {_GZIP: "gzip", _LZ4: "lz4", _ZSTD: "zstd"}
_NAMES = _STREAMED | {_SNAPPY: "snappy"}
_XERIAL = b"\x82SNAPPY\0"  # how Java clients frame snappy: a 16-byte header, then blocks with a size prefix
_XERIAL_HEAD = 16
MAX_BATCH_BYTES = 64 * 1024 * 1024  # of one decompressed batch: a small batch must not fill the memory


class CodecError(Exception):
    """A batch that cannot be decompressed, with the reason."""


def decompress(codec: int, data: bytes) -> bytes:
    """The decompressed records of a batch. Raises CodecError."""
    name = _NAMES.get(codec)
    if name is None:
        raise CodecError(f"unknown compression {codec}")
    if not pa.Codec.is_available(name):
        raise CodecError(f"this pyarrow was built without {name}")
    try:
        unpacked = _snappy(data) if codec == _SNAPPY else _stream(name, data)
    except (OSError, ValueError, IndexError, struct.error, pa.ArrowException) as error:
        raise CodecError(f"invalid {name} data: {error}") from None
    if len(unpacked) > MAX_BATCH_BYTES:
        raise CodecError(f"it decompresses to more than {MAX_BATCH_BYTES >> 20} MiB")
    return unpacked


def _stream(name: str, data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
        unpacked: bytes = stream.read(MAX_BATCH_BYTES + 1)
    return unpacked


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return _snappy_block(data)
    blocks, at, size = [], _XERIAL_HEAD, 0
    while at < len(data) and size <= MAX_BATCH_BYTES:
        (packed,) = struct.unpack_from(">i", data, at)
        block = data[at + 4 : at + 4 + packed]
        if packed <= 0 or len(block) < packed:
            raise ValueError("a block is truncated")
        blocks.append(_snappy_block(block))
        size += len(blocks[-1])
        at += 4 + packed
    return b"".join(blocks)


def _snappy_block(block: bytes) -> bytes:
    """Decompress one block, which begins with its decompressed size as a varint."""
    size = 0
    for place in range(5):
        size |= (block[place] & 0x7F) << (7 * place)
        if block[place] < 0x80:
            break
    if size > MAX_BATCH_BYTES:
        raise ValueError("a block is too large")
    unpacked: bytes = pa.decompress(block, decompressed_size=size, codec="snappy", asbytes=True)
    return unpacked
