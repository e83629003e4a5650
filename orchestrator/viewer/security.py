"""Who may ask, and what an answer allows the page to do.

The page shows everything that agents read and wrote, so it is for one person on one machine: the
server listens on loopback only, and answers who knows its random token. A web page elsewhere that
makes the browser ask (by its address, or by a name that was pointed at loopback) is refused by the
request's ``Host`` and ``Origin``.
"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import compare_digest

HOST = "127.0.0.1"
COOKIE = "outrider-view"

POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; connect-src {connect}; "
    "img-src {image}; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY.format(
        script="'self'", style="'self'", connect="'self'", image="'self'"
    )
    + "; frame-ancestors 'none'",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""On every answer, refusals included."""


def cookie_name(port: int) -> str:
    """Cookies know no port: two viewers at once must not take each other's."""
    return f"{COOKIE}-{port}"


def refusal(
    method: str,
    headers: Mapping[str, str],
    given: tuple[str | None, str | None],
    port: int,
    token: str,
) -> tuple[int, str] | None:
    """Status and words with which to refuse a request; ``None``: answer it.

    ``headers`` by lower-case name; ``given``: the token in the address and the one in the cookie.
    """
    own = (f"{HOST}:{port}", f"localhost:{port}")
    host = headers.get("host", "")
    if host not in own:
        return 421, "this server answers on loopback only"
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return 403, "asked from another page"
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and given[0] is None:
        return 403, "asked from another page"
    if method not in ("GET", "HEAD"):
        return 405, "this server only shows"
    if not any(_is_token(text, token) for text in given):
        return 403, "open the address that outrider view printed: it holds a token"
    return None


def _is_token(text: str | None, token: str) -> bool:
    return text is not None and compare_digest(text.encode(), token.encode())
