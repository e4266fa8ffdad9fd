"""WAV files written chunk by chunk, as no library would write them."""

import struct

GUID = bytes.fromhex("000000001000800000aa00389b71")


def chunk(id: bytes, body: bytes, size: int | None = None, padded: bool = True) -> bytes:
    """A RIFF chunk; `size` overrides the size in its header."""
    return (
        id
        + struct.pack("<I", len(body) if size is None else size)
        + body
        + (b"\0" if padded and len(body) % 2 else b"")
    )


def form(
    code: int = 1, channels: int = 1, rate: int = 8000, bits: int = 16, block: int | None = None, more: bytes = b""
) -> bytes:
    block = channels * -(-bits // 8) if block is None else block
    return chunk(
        b"fmt ", struct.pack("<HHIIHH", code, channels, rate, rate * block % 2**32, block % 2**16, bits) + more
    )


def extensible(code: int = 1, bits: int = 16, guid: bytes = GUID, **options: int) -> bytes:
    return form(0xFFFE, bits=bits, more=struct.pack("<HHIH", 22, bits, 0, code) + guid, **options)


def riff(*chunks: bytes, id: bytes = b"RIFF", kind: bytes = b"WAVE", size: int | None = None) -> bytes:
    body = kind + b"".join(chunks)
    return id + struct.pack("<I", len(body) % 2**32 if size is None else size) + body


def pcm(*samples: int) -> bytes:
    return struct.pack(f"<{len(samples)}h", *samples)
