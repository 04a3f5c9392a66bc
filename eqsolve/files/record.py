"""The checksum and the record of a result file, for who does not need its values."""

import hashlib
import json
from pathlib import Path
from typing import Any

_MARK = b"\neqsolve-sha256:"


def seal(body: bytes) -> bytes:
    """Return the checksum that stands after the netCDF content, where its readers do not look."""
    return _MARK + hashlib.sha256(body).hexdigest().encode()


def is_damaged(path: Path) -> bool:
    """Return whether a file ends in a checksum that is not its own. The HDF5 library may hang on damaged files."""
    length = len(seal(b""))
    whole = path.read_bytes()
    body, end = whole[:-length], whole[-length:]
    alike = sum(a == b for a, b in zip(end, _MARK, strict=False))
    return len(whole) > length and alike > len(_MARK) // 2 and end != seal(body)


def read_record(path: Path) -> dict[str, Any]:
    """Return the record of a sound file of ours; nothing of any other."""
    import h5py

    try:
        if is_damaged(path):
            return {}
        with h5py.File(path) as file:
            record = json.loads(file.attrs["eqsolve"])
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}
