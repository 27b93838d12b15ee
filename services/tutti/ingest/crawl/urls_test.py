"""Canonical URLs: what is the same page has one form; what is no page has a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.ingest.crawl.urls import MAX_LENGTH, Fault, NotAPage, canonical, host_of

BASE = "https://a.example/one/two?x=1"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("HTTP://A.Example:80", "http://a.example/"),
        ("https://a.example:443/", "https://a.example/"),
        ("https://a.example:8443/#top", "https://a.example:8443/"),
        ("https://a.example./x", "https://a.example/x"),
        ("three", "https://a.example/one/three"),
        ("?y=2", "https://a.example/one/two?y=2"),
        ("#part", "https://a.example/one/two?x=1"),
        ("", "https://a.example/one/two?x=1"),
        ("//b.example", "https://b.example/"),
        (" \n/a\tb\r ", "https://a.example/ab"),
        ("\\\\b.example\\c", "https://b.example/c"),
        ("/a/./b/../c/%2e%2E/d", "https://a.example/a/d"),
        ("/../../x/..", "https://a.example/"),
        ("/a//b", "https://a.example/a//b"),
        ("/%7euser/%41%2f%c3%A9", "https://a.example/~user/A%2F%C3%A9"),
        ("/caf\u00e9 au lait?q=\u00e9&r=a b", "https://a.example/caf%C3%A9%20au%20lait?q=%C3%A9&r=a%20b"),
        ("/100%", "https://a.example/100%25"),
        ("https://B\u00fccher.example/", "https://xn--bcher-kva.example/"),
        ("https://under_score.example/", "https://under_score.example/"),
        ("/p;jsessionid=1A2B?PHPSESSID=9&b=2&a=1&sid=4", "https://a.example/p?b=2&a=1"),
        ("/p?sid=4", "https://a.example/p"),
        ("http://[::0001]:80/", "http://[::1]/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0177.0.0.01/", "http://127.0.0.1/"),
        ("http://%31%32%37.1/", "http://127.0.0.1/"),
        ("http://\uff11\uff12\uff17\u30020.0.1/", "http://127.0.0.1/"),
        ("///b.example/x", "https://b.example/x"),
        ("http:///b.example/x", "http://b.example/x"),
        ("/\ud800", "https://a.example/%EF%BF%BD"),
    ],
)
def test_what_is_the_same_page_has_one_form(reference: str, expected: str) -> None:
    assert canonical(reference, BASE) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("reference", "fault"),
    [
        ("javascript:alert(1)", Fault.SCHEME),
        ("JaVaScRiPt:alert(1)", Fault.SCHEME),
        ("java\nscript:alert(1)", Fault.SCHEME),
        ("file:///etc/passwd", Fault.SCHEME),
        ("mailto:a@b.example", Fault.SCHEME),
        ("data:text/html,x", Fault.SCHEME),
        ("ftp://a.example/", Fault.SCHEME),
        ("https://user:secret@a.example/", Fault.USER),
        ("https://user@a.example/", Fault.USER),
        ("http:///", Fault.HOST),
        ("https://a..b.example/", Fault.HOST),
        ("http://[::%31]/", Fault.HOST),
        ("http://%00.example/", Fault.HOST),
        ("https://a b.example/", Fault.HOST),
        ("https://[::1/", Fault.HOST),
        ("https://[v1.x]/", Fault.HOST),
        ("https://1.2.3.4.5/", Fault.HOST),
        ("https://256.256.256.256/", Fault.HOST),
        ("https://1.2.3.09/", Fault.HOST),
        (f"https://{'a' * 64}.example/", Fault.HOST),
        ("/docs/..;x=1/secret", Fault.DOTS),
        ("/docs/%2e%2e%3Bx/secret", Fault.DOTS),
        ("/docs/..%2fsecret", Fault.DOTS),
        ("/docs/x%5C..", Fault.DOTS),
        ("https://a.example:99999/", Fault.PORT),
        ("https://a.example:0/", Fault.PORT),
        ("https://a.example:x/", Fault.PORT),
        ("/" + "a" * MAX_LENGTH, Fault.LENGTH),
        ("/" + "\u00e9" * (MAX_LENGTH // 3), Fault.LENGTH),
        ("/" + "a" * 10**6, Fault.LENGTH),
    ],
)
def test_what_is_no_page_has_a_reason(reference: str, fault: Fault) -> None:
    with pytest.raises(NotAPage) as refused:
        canonical(reference, BASE)
    assert refused.value.fault is fault


PIECES = (
    "/ .. . %2e %2E ; sid=1 ;sid= %3B %73id=2 %2f \\ ? # & = a %25 % %2 secret :// http: https: // [::1] @ :80 : \u3002"
    " \uff11 %31 [::%31] 0x7f \u00e9 \ud800 \t \x00 %00 xn-- PHPSESSID=1 ;jsessionid= .example \u200b \u00ad"
    " %E3%80%82 \uff05 \u2100"
)
HOSTILE = st.lists(st.sampled_from(PIECES.split(" ")), max_size=12).map("".join)
"""References made of what parsers of URLs disagree about."""


@pytest.mark.parametrize(
    "reference",
    [
        "..;sid=1/secret",
        "%2e%2e;sid=1/secret",
        ".%2E;jsessionid=1/secret",
        "x/..;sid=1/..;PHPSESSID=/secret",
        "..;%73id=1/secret",
    ],
)
def test_a_session_parameter_hides_no_dot_segment(reference: str) -> None:
    assert canonical(reference, "https://a.example/docs/page") == "https://a.example/secret"


@given(reference=HOSTILE | HOSTILE.map("http://".__add__), base=st.sampled_from([BASE, "http://b.example/a;sid=1"]))
def test_a_second_pass_changes_no_hostile_url(reference: str, base: str) -> None:
    try:
        found = canonical(reference, base)
    except NotAPage:
        return
    assert canonical(found) == found
    assert not {".", ".."} & set(found.partition("?")[0].split("/"))


@given(reference=st.text(max_size=40), base=st.sampled_from([BASE, "http://b.example/"]))
def test_the_form_is_stable_and_ascii(reference: str, base: str) -> None:
    try:
        found = canonical(reference, base)
    except NotAPage:
        return
    assert canonical(found) == found
    assert found.isascii()
    assert host_of(found).startswith("http")
    assert "#" not in found


@given(path=st.text("/.%2eEaA", max_size=12))
def test_dots_and_escapes_never_lead_out(path: str) -> None:
    found = canonical("/" + path.lstrip("/"), "https://a.example/")
    assert found.startswith("https://a.example/")
    assert not {".", ".."} & set(found.removeprefix("https://a.example").split("/"))
    assert canonical(found) == found
