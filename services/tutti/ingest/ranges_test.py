"""Which addresses are of the public web, in whatever form they come."""

import pytest

from tutti.ingest.ranges import is_public

PUBLIC = {
    "IPv4": ["93.184.216.34", "1.1.1.1", "9.255.255.255", "100.63.255.255", "172.32.0.1", "192.0.1.1", "223.255.255.1"],
    "IPv6": ["2606:2800:220:1::1", "2001:200::1", "2a00:1450::1", "3ffe:ffff::1"],
    "IPv4 in IPv6": ["::ffff:93.184.216.34", "64:ff9b::5db8:d822", "2002:5db8:d822::1"],
}
NOT = {
    "this machine": ["127.0.0.1", "127.255.0.9", "0.0.0.0", "0.1.2.3", "::1", "::"],  # noqa: S104
    "inside": ["10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "fc00::1", "fd00::1", "fec0::1"],
    "on the link": ["169.254.169.254", "168.63.129.16", "fe80::1", "fe80::1%eth0"],
    "of a provider": ["100.64.0.1", "100.127.255.255"],
    "of protocols": ["192.0.0.1", "192.0.0.8", "192.0.0.9", "192.0.0.170", "2001::1", "2001:1::1", "2001:20::1"],
    "of relays and tests": ["192.88.99.1", "192.52.193.1", "198.18.0.1", "198.19.255.255", "2001:2::1"],
    "of name servers that answer nothing": ["192.31.196.1", "192.175.48.1", "2001:4:112::1", "2620:4f:8000::1"],
    "examples": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1", "3fff:fff::1"],
    "of many": ["224.0.0.1", "239.255.255.255", "ff02::1"],
    "reserved": ["240.0.0.1", "255.255.255.255", "1::1", "100::1", "4000::1", "5f00::1", "8000::1"],
    "mapped": ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:192.0.0.8", "::ffff:169.254.169.254"],
    "compatible, of old": ["::127.0.0.1", "::10.0.0.1", "::93.184.216.34"],
    "by NAT64": ["64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:0:0:1::1"],
    "by a NAT64 of one's own": ["64:ff9b:1::7f00:1", "64:ff9b:1::5db8:d822"],
    "by 6to4": ["2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:1::1"],
    "by Teredo": ["2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2"],
    "no address": ["", "name", "127.1", "[2606:2800:220:1::1]"],
}


@pytest.mark.parametrize("address", [each for kind in PUBLIC.values() for each in kind])
def test_an_address_that_may_have_a_web_site_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(("kind", "address"), [(kind, each) for kind, found in NOT.items() for each in found])
def test_one_that_leads_inside_or_nowhere_is_not(kind: str, address: str) -> None:
    assert not is_public(address), kind
