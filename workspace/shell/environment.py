"""The environment of a command: what programs need, and nothing that could be a secret. Pure."""

from collections.abc import Mapping

# Handed on as they are. Everything else stays behind: a name does not say whether it holds a key.
_KEPT = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "TERM", "TZ", "USER"})
_KEPT_PREFIX = "LC_"
# Only with the network, and only where the address holds no password.
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Nobody is there to page through a text or to answer a question.
_UNATTENDED = {
    "SHELL": "/bin/bash",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "NO_COLOR": "1",
}


def scrubbed(environ: Mapping[str, str], *, network: bool) -> dict[str, str]:
    """What a command gets of `environ`."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIX) or (network and _is_proxy(name, value))
    }
    kept.setdefault("PATH", _PATH)
    kept.setdefault("HOME", "/tmp")
    kept.setdefault("LANG", "C.UTF-8")
    kept.setdefault("TERM", "dumb")
    return {**kept, **_UNATTENDED}


def _is_proxy(name: str, value: str) -> bool:
    return name.lower() in _PROXIES and "@" not in value
