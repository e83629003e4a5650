"""TLS as httpx2 sets it up, but not before a connection needs it.

To load the certificates that a system trusts costs as much CPU as twenty calls, and a local server on
``http://`` needs none of them.
"""

from __future__ import annotations

import ssl
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class LateCertificates(ssl.SSLContext):
    """Stands for the context that `httpx2.create_ssl_context` makes."""

    @cached_property
    def _loaded(self) -> ssl.SSLContext:
        import httpx2

        return httpx2.create_ssl_context()

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        self._loaded.set_alpn_protocols(alpn_protocols)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return self._loaded.wrap_bio(*args, **options)
