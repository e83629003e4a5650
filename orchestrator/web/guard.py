"""Who may be fetched from: by the rules, and by the address that a name leads to. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.errors import ToolError
from orchestrator.web.addresses import canonical, is_local_name, kind_of


class FetchFailed(ToolError):
    """A page was not fetched; the text tells the model why."""


class FetchDenied(FetchFailed):
    """A rule forbids it. ``rule``: as the user wrote it."""

    def __init__(self, message: str, rule: str) -> None:
        super().__init__(message)
        self.rule = rule


class Decided(Protocol):
    """What the rules say: ``verdict`` is "allow", "ask" or "deny", ``rule`` the rule that said so."""

    @property
    def verdict(self) -> str: ...
    @property
    def rule(self) -> str | None: ...


MayFetch = Callable[[str], Decided]


def named_hosts(rules: Iterable[str]) -> frozenset[str]:
    """The hosts and addresses that rules such as ``fetch(127.0.0.1)`` name, one by one: a rule with a
    wildcard names nobody."""
    found = (re.fullmatch(r"\s*fetch\(([^*?]+)\)\s*", rule) for rule in rules)
    return frozenset(canonical(match[1]) for match in found if match)


@dataclass(frozen=True)
class Guard:
    """Asked before every connection, redirects included.

    ``may_fetch``: what the rules say of a host. ``named``, ``asked`` and ``denied``: hosts and
    addresses that rules to allow, to ask for, or to deny name. Only named ones may be private, and one
    that is asked for only by its own name: whoever agreed to it saw that. An address that is denied is
    so under any name.
    """

    may_fetch: MayFetch
    named: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()

    def check_host(self, host: str, url: str, came_from: str | None) -> None:
        """Raises `FetchFailed` if the rules do not let ``url`` be fetched; ``host``: its host.

        A first URL was asked for before the call was made, so that it stands unless it is denied.
        Where a redirect leads nobody was asked.
        """
        decided = self.may_fetch(canonical(host))
        if decided.verdict == "deny":
            hop = "" if came_from is None else f"{came_from} redirects to "
            raise FetchDenied(f"{hop}{url}: not fetched", decided.rule or "fetch")
        if came_from is not None and decided.verdict != "allow":
            raise FetchFailed(
                f"{came_from} redirects to another host, which no rule allows: if you need it, "
                f'call fetch(url="{url}")'
            )

    def check_addresses(self, host: str, addresses: Sequence[str]) -> None:
        """Raises `FetchFailed` if any of the addresses that ``host`` leads to may not be used."""
        name = canonical(host)
        if not addresses:
            raise FetchFailed(f"{host}: no such host")
        for address in map(canonical, addresses):
            if address in self.denied:
                raise FetchDenied(f"{_spelt(host, address)}: not fetched", f"fetch({address})")
        known = self.named | (self.asked & {name})
        if name in known and is_local_name(name):
            return
        for address in addresses:
            kind = kind_of(address)
            if kind is not None and canonical(address) not in known:
                raise FetchFailed(
                    f"{_spelt(host, address)}, {kind}: not fetched. Only a person can allow it, "
                    f"with the rule fetch({canonical(address)})"
                )


def _spelt(host: str, address: str) -> str:
    plain = canonical(address)
    return host if canonical(host) == plain == host else f"{host} is {plain}"
