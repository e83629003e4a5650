"""Which addresses are public, and how a host is spelt. Pure."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.web import FetchDenied, FetchFailed, Guard, canonical, kind_of, named_hosts
from orchestrator.web.guard import Decided

SPECIAL = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "::1": "loopback",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "fd00:ec2::254": "private",
    "169.254.169.254": "link-local",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "ff02::1": "multicast",
    "0.0.0.0": "no machine",
    "::": "no machine",
    "0.1.2.3": "private",
    "100.64.0.1": "provider's network",
    "100.100.100.200": "provider's network",
    "168.63.129.16": "metadata",
    "192.0.0.192": "reserved",
    "198.18.0.1": "private",
    "240.0.0.1": "private",
    "255.255.255.255": "private",
    "fec0::1": "reserved",
    "4000::1": "reserved",
    "64:ff9b:1::1": "private",
    # with an IPv4 address in them
    "::ffff:127.0.0.1": "loopback",
    "::ffff:0a00:1": "private",
    "::127.0.0.1": "loopback",
    "::10.0.0.1": "private",
    "2002:7f00:1::1": "loopback",
    "2002:a9fe:a9fe::": "link-local",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::169.254.169.254": "link-local",
    "2001:0:a00:1::": "private",
}


@pytest.mark.parametrize(("address", "words"), SPECIAL.items())
def test_an_address_that_is_not_public_is_told_by_its_kind(address: str, words: str) -> None:
    assert words in (kind_of(address) or "public")


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111"),
        *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"),
    ],
)
def test_a_public_address_is_public(address: str) -> None:
    assert kind_of(address) is None


PRIVATE = [ip_network(n) for n in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16")]


@given(st.sampled_from(PRIVATE).flatmap(lambda n: st.integers(int(n[0]), int(n[-1]))))
def test_a_private_address_is_so_in_every_ipv6_dress(number: int) -> None:
    assert kind_of(str(IPv4Address(number))) is not None
    for base in ("::", "::ffff:0:0", "64:ff9b::"):
        assert kind_of(str(IPv6Address(int(IPv6Address(base)) + number))) is not None
    assert kind_of(str(IPv6Address((0x2002 << 112) + (number << 80)))) is not None


@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.sampled_from(["d", "#x", "#o"]))
def test_a_number_is_read_as_the_c_library_reads_it(number: int, dots: int, form: str) -> None:
    """Decimal, octal, hexadecimal, with none to three dots."""
    parts = [number >> 8 * (3 - at) & 0xFF for at in range(dots)]
    parts.append(number & (1 << 8 * (4 - dots)) - 1)
    spelt = ".".join(format(part, form).replace("0o", "0") for part in parts)
    assert canonical(spelt) == socket.inet_ntoa(socket.inet_aton(spelt))


@pytest.mark.parametrize(
    ("host", "one"),
    [
        ("EXAMPLE.org.", "example.org"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("[0:0::1]", "::1"),
        ("::ffff:7f00:1", "127.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("1.2.3.4.5", "1.2.3.4.5"),
        ("256.1.1.1", "256.1.1.1"),
        ("0x.example", "0x.example"),
        ("08.1", "08.1"),
        ("", ""),
    ],
)
def test_a_host_has_one_spelling(host: str, one: str) -> None:
    assert canonical(host) == one


@given(st.text())
def test_no_text_makes_the_spelling_fail(host: str) -> None:
    assert len(canonical(host)) <= max(45, 3 * len(host))


def rules(**verdicts: str) -> Guard:
    class Said:
        def __init__(self, verdict: str, rule: str | None) -> None:
            self.verdict, self.rule = verdict, rule

    def may_fetch(host: str) -> Decided:
        verdict = verdicts.get(host.replace(".", "_"), "ask")
        return Said(verdict, f"fetch({host})" if verdict == "deny" else None)

    return Guard(may_fetch, named_hosts(["fetch(127.0.0.1)", "fetch(LocalHost)", "fetch(a.test)"]))


def test_only_a_rule_with_a_whole_name_names_somebody() -> None:
    found = named_hosts(["fetch(A.test)", "fetch(*.b.test)", "fetch", "read(c)", "fetch([::1])"])
    assert found == {"a.test", "::1"}


def test_where_a_redirect_leads_must_be_allowed_and_a_first_url_must_not_be_denied() -> None:
    guard = rules(allowed="allow", denied="deny")
    guard.check_host("anywhere", "http://anywhere/", None)
    guard.check_host("allowed", "http://allowed/", "http://x/")
    with pytest.raises(FetchDenied) as denied:
        guard.check_host("DENIED.", "http://denied/", None)
    assert denied.value.rule == "fetch(denied)"
    with pytest.raises(FetchFailed, match=r'call fetch\(url="http://anywhere/"\)'):
        guard.check_host("anywhere", "http://anywhere/", "http://x/")


def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    guard = rules()
    guard.check_addresses("x.test", ["1.1.1.1", "2606:4700::1111"])
    with pytest.raises(FetchFailed, match=r"x\.test is 10\.0\.0\.1, a private address"):
        guard.check_addresses("x.test", ["1.1.1.1", "10.0.0.1"])


def test_a_private_address_is_reached_by_its_own_name_only() -> None:
    """A rule for a public name does not follow that name into the network: its owner could lead it
    there. A rule for the address does, and one for a name that is local by its form."""
    guard = rules()
    guard.check_addresses("localhost", ["127.0.0.1", "::1"])
    guard.check_addresses("127.0.0.1", ["127.0.0.1"])
    guard.check_addresses("a.test", ["127.0.0.1"])
    with pytest.raises(FetchFailed, match=r"a\.test is 10\.0\.0\.1"):
        guard.check_addresses("a.test", ["10.0.0.1"])
    with pytest.raises(FetchFailed, match="::1, a loopback address"):
        guard.check_addresses("::1", ["::1"])


def test_an_address_that_is_denied_is_so_under_every_name() -> None:
    guard = Guard(rules().may_fetch, denied=named_hosts(["fetch(1.1.1.1)"]))
    with pytest.raises(FetchDenied) as denied:
        guard.check_addresses("one.test", ["2.2.2.2", "::ffff:1.1.1.1"])
    assert denied.value.rule == "fetch(1.1.1.1)"


def test_an_address_that_is_asked_for_is_reached_by_its_own_name_only() -> None:
    """Whoever is asked agrees to the name in the question: not to wherever another name leads."""
    guard = Guard(rules().may_fetch, asked=named_hosts(["fetch(10.0.0.1)", "fetch(localhost)"]))
    guard.check_addresses("10.0.0.1", ["10.0.0.1"])
    guard.check_addresses("localhost", ["127.0.0.1"])
    with pytest.raises(FetchFailed, match=r"other\.test is 10\.0\.0\.1, a private address"):
        guard.check_addresses("other.test", ["10.0.0.1"])
