"""From a folder to documents: each page becomes one document or one rejection with its reason."""

import gzip
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.config.datadir import DataDir
from tutti.corpus.documents.documents import Document, Extraction, MediaType
from tutti.ingest.encoding.normalisation import normalise
from tutti.ingest.encoding.sniffing import media_type
from tutti.ingest.reading.containers import Page
from tutti.ingest.reading.extraction import extract
from tutti.ingest.reading.readers import Container, InputRootError, Limits, read_folder
from tutti.ingest.reading.rejections import Reason, Rejection

PAGE = (
    b"<!DOCTYPE html><title> A\n title </title><body><nav><a href=x>Home</a></nav>"
    b"<main><h1>Notes</h1><p>Text&nbsp;here.</p></main>"
)


def read(root: Path, max_file_bytes: int = 1 << 20) -> dict[str, bytes | Reason]:
    found = list(read_folder(root, Limits(max_file_bytes)))
    assert not any(isinstance(item, Container) for item in found)
    return {item.path: item.data if isinstance(item, Page) else item.reason for item in found}  # type: ignore[union-attr]


def extracted(data: bytes, path: str = "a.html") -> Document:
    document = extract(Page(path, data))
    assert isinstance(document, Document), document
    return document


def refused(data: bytes, path: str = "a.html") -> Rejection:
    rejection = extract(Page(path, data))
    assert isinstance(rejection, Rejection), rejection
    return rejection


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a.txt", "a/b/c.txt", "\u00e9.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    paths = [item.path for item in read_folder(tmp_path)]
    assert paths == ["a.txt", "a/b/c.txt", "a/z.txt", "b.txt", "\u00e9.txt"]


def test_folders_may_be_nested_hundreds_deep(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(700):
        deep /= "a"
        deep.mkdir()
    for folder in (deep, deep.parent, tmp_path):
        (folder / "b.txt").write_text("b")
    paths = [item.path for item in read_folder(tmp_path)]
    assert paths == ["a/" * 700 + "b.txt", "a/" * 699 + "b.txt", "b.txt"]


def test_a_page_that_is_too_large_is_left_out_and_one_of_just_that_size_is_not(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 101)
    (tmp_path / "fits").write_bytes(b"x" * 100)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(100 << 20)
    assert read(tmp_path, max_file_bytes=100) == {
        "fits": b"x" * 100, "huge": Reason.TOO_LARGE, "large": Reason.TOO_LARGE,
    }  # fmt: skip


def test_links_are_followed_inside_the_folder_and_refused_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "folder").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (root / "folder" / "page.txt").write_text("page")
    (root / "to_page").symlink_to(root / "folder" / "page.txt")
    (root / "to_folder").symlink_to("folder")
    (root / "to_secret").symlink_to(outside / "secret.txt")
    (root / "to_outside").symlink_to(outside)
    (root / "folder" / "up").symlink_to(root)
    (root / "itself").symlink_to("itself")
    (root / "nowhere").symlink_to("missing")
    assert read(root) == {
        "folder/page.txt": b"page",
        "folder/up": Reason.LINK_BROKEN,
        "itself": Reason.LINK_BROKEN,
        "nowhere": Reason.LINK_BROKEN,
        "to_folder": Reason.LINK_REPEATED,
        "to_outside": Reason.LINK_OUTSIDE,
        "to_page": b"page",
        "to_secret": Reason.LINK_OUTSIDE,
    }


def test_folders_that_link_to_each_other_are_read_once_each(tmp_path: Path) -> None:
    names = [f"package{number:02}" for number in range(30)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "page.txt").write_text(name)
        for other in names:
            (tmp_path / name / other).symlink_to(f"../{other}")
    found = read(tmp_path)
    assert {path: data for path, data in found.items() if isinstance(data, bytes)} == {
        f"{name}/page.txt": name.encode() for name in names
    }
    assert found["package00/package01"] is Reason.LINK_REPEATED


def test_what_tools_hide_in_a_folder_is_no_text_of_it(tmp_path: Path) -> None:
    (tmp_path / ".git" / "logs").mkdir(parents=True)
    for name in (".git/HEAD", ".git/logs/HEAD", ".notes.md", "a.md"):
        (tmp_path / name).write_text("words")
    assert read(tmp_path) == {".git": Reason.HIDDEN, ".notes.md": Reason.HIDDEN, "a.md": b"words"}


def test_what_a_platform_keeps_below_a_folder_is_no_text_of_it(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "below" / "data")
    (tmp_path / "a.md").write_text("words")
    for _ in range(2):
        assert read(tmp_path) == {"a.md": b"words", "below/data": Reason.DATA_DIRECTORY}
        (data.path / "logs" / "host.log").write_text("another line")
    (data.path / "version").unlink()
    assert read(tmp_path)["below/data/logs/host.log"] == b"another line"


def test_a_folder_of_pages_may_lie_in_a_data_directory_but_not_among_what_is_kept_there(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    for folder in ("pages", "pages/logs", "logs/old"):
        (data.path / folder).mkdir()
        (data.path / folder / "a.md").write_text("words")
    assert read(data.path / "pages") == {"a.md": b"words", "logs/a.md": b"words"}
    assert read(data.path / "pages" / "logs") == {"a.md": b"words"}
    for folder in (".", "logs", "logs/old"):
        with pytest.raises(InputRootError, match=r"input\.path: .* data directory; expected a folder of pages"):
            list(read_folder(data.path / folder))


def test_what_is_no_page_has_a_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.txt")).write_text("x")
    (tmp_path / "e\u0301.txt").write_text("one")
    (tmp_path / "\u00e9.txt").write_text("two")
    assert read(tmp_path) == {
        "bad\\xff.txt": Reason.NAME_NOT_UNICODE,
        "pipe": Reason.NOT_A_FILE,
        "socket": Reason.UNREADABLE,
        "\u00e9.txt": b"one",
        ascii("\u00e9.txt"): Reason.NAME_TAKEN,
    }


def test_a_file_that_became_a_link_out_of_the_folder_while_it_was_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "pages").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "pages" / name).write_text(name)
    found = read_folder(tmp_path / "pages")
    assert next(found) == Page("a.txt", b"a.txt")
    (tmp_path / "pages" / "b.txt").unlink()
    (tmp_path / "pages" / "b.txt").symlink_to(tmp_path / "secret")
    (item,) = found
    assert isinstance(item, Rejection)
    assert item.reason is Reason.LINK_OUTSIDE


def test_the_reason_never_names_the_machine(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to("missing")
    (tmp_path / "bin").write_bytes(b"\0\1\2")
    for item in read_folder(tmp_path):
        rejection = extract(item) if isinstance(item, Page) else item
        assert isinstance(rejection, Rejection)
        assert str(tmp_path) not in str(rejection)


def test_a_root_that_is_a_file_is_that_file_alone_and_one_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputRootError, match=r"input.path: No such file.*expected a folder"):
        list(read_folder(tmp_path / "missing"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").write_text("y")
    assert list(read_folder(tmp_path / "file")) == [Page("file", b"x")]
    (tmp_path / "below").mkdir()
    assert len(list(read_folder(tmp_path / "below" / "..", Limits()))) == 2


def test_html_gives_its_main_content_and_title() -> None:
    document = extracted(PAGE, "folder/page.html")
    assert (document.title, document.extraction) == ("A title", Extraction.MAIN)
    assert document.text == "Notes\n\nText here."
    assert document.media_type is MediaType.HTML


def test_html_without_main_content_gives_its_visible_text() -> None:
    document = extracted(b"<html><body><nav>Home and away</nav><script>var x</script></body>")
    assert (document.text, document.extraction) == ("Home and away", Extraction.BODY)


@pytest.mark.parametrize("blank", ["\u00ad", "\u00c2\u00a0", "\ufeff \x85"])
def test_main_content_that_is_nothing_once_it_is_written_is_none(blank: str) -> None:
    document = extracted(f"<html><body><nav>Home and away</nav><main><p>{blank}</p></main></body>".encode())
    assert (document.text, document.extraction) == ("Home and away", Extraction.BODY)


def test_what_a_page_is_follows_from_what_was_declared_then_its_bytes_then_its_name() -> None:
    assert media_type("page.txt", PAGE) is MediaType.HTML
    assert media_type("page.txt", b"\xef\xbb\xbf \n<!-- x --><HTML>") is MediaType.HTML
    assert media_type("page.txt", b"\n" * 5_000 + b"<!--" + b"x" * 5_000 + b"-->" + PAGE) is MediaType.HTML
    assert media_type("page.txt", "<html>".encode("utf-16")) is MediaType.HTML
    assert media_type("page.txt", b"<html>", kind="text/plain") is MediaType.HTML
    assert media_type("page", b"Warning: no such file in x.php\n<!doctype html>", kind="text/html") is MediaType.HTML
    assert media_type("page", b"a < b", kind="application/xhtml+xml") is MediaType.HTML
    assert media_type("page.html", b"Words come first. <p>More</p>") is MediaType.HTML
    assert media_type("page.html", b"a < b", kind="text/plain") is MediaType.PLAIN
    assert media_type("page.md", b"# Title") is MediaType.MARKDOWN
    assert media_type("page.md", b'<p align="center">A picture</p>\n\n# Title') is MediaType.MARKDOWN
    assert media_type("page", b"# Title", kind="text/markdown") is MediaType.MARKDOWN
    assert media_type("page.md", PAGE) is MediaType.HTML


@pytest.mark.parametrize("element", ["section", "nav", "header", "ul", "form", "center", "h3", "img", "noscript", "hr"])
def test_a_page_may_begin_with_any_element_that_pages_begin_with(element: str) -> None:
    assert media_type("page", f"\n<{element.upper()} class=x>Words".encode()) is MediaType.HTML
    assert media_type("page", f"<{element}x>".encode()) is MediaType.PLAIN


def test_a_title_in_markdown_is_found_behind_its_introduction() -> None:
    markdown = extracted(b"Intro\n\n# The title\n", "page.md")
    assert (markdown.title, markdown.extraction) == ("The title", Extraction.VERBATIM)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", Reason.EMPTY),
        (b"<html><body><script>x</script></body></html>", Reason.EMPTY),
        (b" \n\t\xc2\xa0", Reason.EMPTY),
        (b"\x89PNG\r\n\x1a\n", Reason.BINARY),
        (b"%PDF-1.7 text", Reason.PDF),
        (b"<html>\0", Reason.BINARY),
        (bytes(range(1, 32)) * 9, Reason.BINARY),
        (b"<meta charset=utf-8>" + b"\x81" * 50, Reason.UNDECODABLE),
        (b"<html>" + b"<div>" * 200_000 + b"text", Reason.TOO_DEEP),
        (b"<html>" + b"<div title='</div>'>" * 200_000 + b"text", Reason.TOO_DEEP),
        (b"<html><!-->" + b"<div>" * 200_000 + b"-->text", Reason.TOO_DEEP),
        (b"<html>" + b"<div><object></div></object>" * 2_000 + b"text", Reason.TOO_DEEP),
    ],
)
def test_a_page_without_usable_text_is_refused_with_its_reason(data: bytes, reason: Reason) -> None:
    assert refused(data).reason is reason


def test_what_is_to_be_unpacked_first_is_told() -> None:
    assert "unpack it, only JSON lines and WARC are read gzipped" in refused(gzip.compress(b"Words.")).detail
    assert "unpack" not in refused(b"<html>\0").detail


def test_a_page_of_comments_is_sniffed_at_once() -> None:
    assert media_type("page", b"<!-- x -->" * 400 + b"<") is MediaType.PLAIN


def test_unclosed_elements_that_do_not_nest_are_no_depth() -> None:
    assert extracted(b"<html>" + b"<p>text<br>" * 5000).text.count("text") == 5000


def test_replaced_characters_are_recorded_in_the_document() -> None:
    assert extracted(b"<html><body><p>Some text with one bad byte \x81 in it</p>").replaced_characters == 1


@given(text=st.text(alphabet=st.characters(), max_size=60))
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    once.encode()


def test_normalisation_does_what_it_states() -> None:
    assert normalise("\ufeff\n a\u00a0b \t\r\nc\r\r\r\r\rd\x00e\u0301\u00ad \ud800\n\n") == " a b\nc\n\nd\u00e9 \ufffd"
    assert normalise(" \n\t ") == ""


def test_a_megabyte_of_spaces_inside_a_line_is_read_once() -> None:
    text = "a" + " \t" * 500_000 + "b"
    assert normalise(text + " " * 1_000_000) == text
