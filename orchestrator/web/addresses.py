"""What an address is: public, or one that only this machine or its network can reach. Pure.

Pages that a model chooses must not lead it to services that trust whoever is near: those of this
machine, of its network, and the metadata service of a cloud, which hands out keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

# Beside what the standard library knows as special, in all its versions. RFC 6598, RFC 6890, RFC 8215; 168.63.129.16 is a public
# number that every Azure machine reaches its own host under.
_SPECIAL: dict[IPv4Network | IPv6Network, str] = {
    IPv4Network("100.64.0.0/10"): "an address inside a provider's network",
    IPv4Network("192.0.0.0/24"): "a reserved address",
    IPv4Network("168.63.129.16/32"): "a cloud's metadata address",
    IPv6Network("64:ff9b:1::/48"): "a private address",
}
# Everything that is routed on the IPv6 internet, and the prefix for reaching IPv4 from it (RFC 6052).
_IPV6_GLOBAL = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE = IPv6Network("::/96")

_KINDS = (
    ("is_unspecified", "the address of no machine"),
    ("is_loopback", "a loopback address"),
    ("is_link_local", "a link-local address, where a cloud's metadata lies"),
    ("is_multicast", "a multicast address"),
    ("is_private", "a private address"),
    ("is_reserved", "a reserved address"),
)


def kind_of(address: str) -> str | None:
    """In words, why ``address`` is not public; ``None`` if it is. An IPv6 address that holds an IPv4
    one (mapped, compatible, 6to4, Teredo, NAT64) is what that one is.

    Raises ``ValueError`` for what is no address.
    """
    given = ip_address(address.partition("%")[0])
    return next(filter(None, map(_kind, (given, *_within(given)))), None)


def _kind(address: Address) -> str | None:
    for network, words in _SPECIAL.items():
        if address in network:
            return words
    if isinstance(address, IPv6Address) and next(_within(address), None) is not None:
        return None  # the IPv4 address in it decides
    for question, words in _KINDS:
        if getattr(address, question):
            return words
    if isinstance(address, IPv6Address) and address not in _IPV6_GLOBAL:
        return "a reserved address"
    return None if address.is_global else "a reserved address"


def _within(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if not isinstance(address, IPv6Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address.teredo is not None:
        yield from address.teredo
    elif address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 1):
        yield IPv4Address(int(address) & 0xFFFF_FFFF)


def canonical(host: str) -> str:
    """``host`` in the one spelling that rules are compared with: in small letters, without a final
    dot, and an address as numbers, however it was written (``0x7f.1``, ``2130706433``,
    ``[0:0::1]``)."""
    name = host.strip().lower().removesuffix(".")
    bare = name.removeprefix("[").removesuffix("]").partition("%")[0]
    try:
        address = ip_address(bare)
    except ValueError:
        return _number_spelt(name) or name
    return str(getattr(address, "ipv4_mapped", None) or address)


def _number_spelt(name: str) -> str | None:
    """The IPv4 address that C libraries read ``name`` as (``inet_aton``): up to four numbers, decimal,
    octal or hexadecimal, of which the last fills what is left."""
    try:
        numbers = [_number(part) for part in name.split(".")]
    except ValueError:
        return None
    *first, last = numbers
    room = 256 ** (4 - len(first))
    if len(numbers) > 4 or any(n > 255 for n in first) or last >= room:
        return None
    whole = sum(n << 8 * (3 - at) for at, n in enumerate(first)) + last
    return str(IPv4Address(whole))


def _number(text: str) -> int:
    if not (text.isascii() and text.isalnum()):
        raise ValueError(text)
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)


# Names that no public name server answers for (RFC 6761, 6762, 8375, and the reserved `internal`).
_LOCAL_ENDS = (".localhost", ".local", ".internal", ".home.arpa", ".lan")


def is_local_name(host: str) -> bool:
    """Whether a canonical host name belongs to this machine or network by its form, so that whoever
    names it means a private address."""
    return ("." not in host and ":" not in host) or host.endswith(_LOCAL_ENDS)
