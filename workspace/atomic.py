"""Reading a file whole, and replacing one so that a crash leaves the old content or the new."""

import contextlib
import os
import secrets
import stat

from workspace.errors import WrongKind
from workspace.paths import Place

_LARGEST = 64 * 1024 * 1024  # bytes; what is larger does not belong into memory, nor to a model


def read_bytes(place: Place) -> bytes:
    """The content of the regular file at `place`. Raises `WrongKind` for a device and the like.

    A folder is an `IsADirectoryError`, which `Root.walk` turns into `WrongKind` too.
    """
    descriptor = place.open(os.O_RDONLY)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise WrongKind(place.path, "is a device, socket or pipe, not a file")
        if status.st_size > _LARGEST:
            size = status.st_size
            raise WrongKind(
                place.path, f"has {size:,} bytes; use grep, or the shell on a part of it"
            )
        return file.read()


def write_bytes(place: Place, data: bytes) -> None:
    """Put `data` at `place`: temporary file beside it, fsync, rename, fsync of the folder.

    Permission bits, and the owner where allowed, of a file that is replaced stay. Hard links to
    it keep the old content.
    """
    temporary = f".outrider-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666, dir_fd=place.folder)
    try:
        with open(descriptor, "wb") as file:
            _take_over(place, descriptor)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=place.folder)
        raise
    sync_folder(place.folder)


def _take_over(place: Place, descriptor: int) -> None:
    try:
        old = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    # Before the mode: changing the owner clears set-id bits. Only root may give files away.
    with contextlib.suppress(OSError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def sync_folder(folder: int) -> None:
    """Make the names in an open folder durable, where the folder may be opened at all."""
    with contextlib.suppress(PermissionError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
