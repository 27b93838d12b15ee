"""The chat page in a real browser: by keyboard, in two tabs, over reloads and lost replicas, and with hostile texts."""

from __future__ import annotations

import contextlib
import random
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import select, update

from tests.browser.annotation_test import HOSTILE
from tests.browser.chromium import chromium
from tests.browser.login import log_in
from tests.browser.pages_test import Tab
from tests.browser.reader import CUT_OFF, LETTERS, NARROW, SMALLEST_PIXELS, WIDE
from tests.chat.past_test import published
from tests.chat.platforms import CHAT_BUILDS
from tests.chat.talks_test import World
from tests.talks import demonstrations
from tests.web.hosted import hosted
from tutti.chassis.identity.principal import DEFAULT_TENANT, Method, Principal
from tutti.chat.conversations import ASSISTANT, RUNNING, USER, Message
from tutti.chat.live import Live
from tutti.chat.pages.pages import ChatPages
from tutti.chat.saying import Piece
from tutti.chat.turns import Turns
from tutti.contracts.chat.v1 import Answer
from tutti.contracts.common.v1 import Training
from tutti.contracts.scheduler.v1 import Job, JobSpec
from tutti.web.pages import Follow

ENDED = "article.answer[aria-busy=false]"
STOPPED = re.compile(r"It was stopped\.|ended with an error")
TABLE = "| animal | legs |\n|---|---:|\n| cat | 4 |\n| bird \\| hen | **2** |\nno row\n"
SECTION = f"""# Animals

It is *plain* text with `code`, **strong words** and a mark \u200b that hides. It is *plain* text, with `more of it`.

- cats
  - old
  - young, which
    run
- `dogs`

  who bark

3. three
4. four

{TABLE}
> quoted
> - twice

```
x = [1,
     2]

y = x
```

---
"""
MOST_TOUCHED = 30
GROWN = """async ({texts, module}) => {
  const { Growing } = await import(new URL("growing.js", module));
  const { element, markdown } = await import(new URL("markdown.js", module));
  const wrong = [];
  for (const pieces of texts) {
    const shown = element("div");
    const growing = new Growing(shown);
    let text = "";
    for (const piece of pieces) {
      growing.push(piece);
      text += piece;
      const whole = element("div", {}, markdown(text));
      if (!shown.isEqualNode(whole)) {
        wrong.push([text, shown.innerHTML, whole.innerHTML]);
        break;
      }
    }
  }
  return wrong;
}"""
"""Texts that grow piece by piece and differ from the whole text at some piece."""
TOUCHED = """() => {
  globalThis.touched = [];
  const size = (node) => 1 + [...node.childNodes].reduce((sum, each) => sum + size(each), 0);
  const all = (nodes) => [...nodes].reduce((sum, each) => sum + size(each), 0);
  const count = (each) => (each.type === "childList" ? all(each.addedNodes) + all(each.removedNodes) : 1);
  const seen = (records) => globalThis.touched.push(records.reduce((sum, each) => sum + count(each), 0));
  const watched = { subtree: true, childList: true, characterData: true, attributes: true };
  new MutationObserver(seen).observe(document.documentElement, watched);
}"""
"""Counts the nodes of the whole page that each chunk adds, removes or changes, with all that is in them."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hosted(tmp_path_factory.mktemp("platform"), builds=CHAT_BUILDS) as served:
        yield World(served)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


class Reader:
    """Somebody who chats in a browser of his or her own."""

    def __init__(self, browser: Browser, world: World, *, width: int = WIDE, scheme: str = "light") -> None:
        self.tab, self.world = Tab(browser, width, scheme), world
        self.page: Page = self.tab.page
        self.await_model()
        log_in(self.page, f"{world.served.url}/login/{world.served.link(world.people['ada'])}?next=/chat")
        self.page.wait_for_url(f"{world.served.url}/chat")
        expect(self.page.locator("#empty-model")).to_have_text("toy")
        expect(self.page.locator("#text")).to_be_focused()  # the last thing that the page does

    def limit(self, tokens: str) -> None:
        """Limit the tokens of answers."""
        self.page.locator("#settings-open").click()
        self.page.locator("#max_tokens").fill(tokens)
        self.page.locator("#settings-open").click()
        self.page.locator("#text").focus()

    def say(self, text: str, *, ended: int | None = None) -> None:
        """Type a message and send it; wait until `ended` answers have ended."""
        self.page.locator("#text").fill(text)
        self.page.keyboard.press("Enter")
        if ended is not None:
            expect(self.page.locator(ENDED)).to_have_count(ended)

    def await_model(self) -> None:
        """Wait until the deployment serves: it does not after its replicas were silent."""
        with self.world.served.client() as operator:
            self.world.await_ready(operator)

    def box(self, selector: str) -> Any:
        """Where an element is on the screen, in pixels."""
        return self.page.locator(selector).bounding_box()

    @property
    def stored(self) -> Any:
        """The conversation that is shown, as the server has it."""
        ident = self.page.url.rpartition("/")[2]
        return self.world.ada.get(f"conversations/{ident}").json

    def quiet(self) -> None:
        """Nothing was said to the console, and no other host was asked."""
        assert self.tab.heard == []
        assert [each for each in self.tab.asked if not each.startswith(f"{self.world.served.url}/")] == []

    def close(self) -> None:
        self.tab.context.close()


def turns_of(world: World) -> Turns:
    """The turns of the service that runs."""
    routes = world.served.running("chat").service.pages.routes
    [pages] = [getattr(each.answer, "__self__", None) for each in routes if isinstance(each, Follow)]
    assert isinstance(pages, ChatPages)
    return pages._turns


@pytest.fixture
def reading(browser: Browser, world: World) -> Iterator[Callable[..., Reader]]:
    made: list[Reader] = []

    def make(**look: Any) -> Reader:
        made.append(Reader(browser, world, **look))
        made[-1].limit("8")
        return made[-1]

    yield make
    for each in made:
        each.close()


@contextlib.contextmanager
def silent_replicas() -> Iterator[None]:
    """They neither answer nor end meanwhile."""
    found = [each for each in psutil.Process().children() if "tutti.chat.replica" in " ".join(each.cmdline())]
    assert found
    for each in found:
        each.suspend()
    try:
        yield
    finally:
        for each in found:
            each.resume()


def test_a_conversation_is_held_by_keyboard_alone(reading: Callable[..., Reader]) -> None:
    ada = reading()
    expect(ada.page.locator("#banner")).to_contain_text("experiment")
    expect(ada.page.locator("#empty-length")).to_contain_text("256 tokens")
    expect(ada.page.locator("#text")).to_be_focused()
    expect(ada.page.locator("#room")).to_have_text(re.compile(r"^2\d\d tokens left$"))
    ada.page.keyboard.type("a b")
    ada.page.keyboard.press("Shift+Enter")
    ada.page.keyboard.type("c")
    expect(ada.page.locator("#room")).to_have_text(re.compile(r"^[1-9] typed, 2\d\d tokens left$"))
    ada.page.keyboard.press("Enter")
    expect(ada.page.locator(ENDED)).to_have_count(1)
    expect(ada.page.locator("#conversations [aria-current]")).to_have_text("a b c")
    ada.page.keyboard.press("Escape")
    expect(ada.page.locator("article.answer")).to_be_focused()
    ada.page.keyboard.press("y")
    expect(ada.page.locator("#why")).to_be_focused()
    ada.page.get_by_role("button", name="Compute it again").press("Enter")
    said, answer = ada.stored["messages"]
    size = len(answer["text"].encode())
    expect(ada.page.locator("#why [role=status]")).to_have_text(f"Identical, {size} of {size} bytes")
    expect(ada.page.locator("#why")).to_contain_text(answer["answer"])
    ada.page.keyboard.press("t")
    expect(ada.page.locator(".tokens button").first).to_be_focused()
    ada.page.keyboard.press("Escape")
    expect(ada.page.locator("article.answer")).to_be_focused()
    ada.page.keyboard.press("y")
    expect(ada.page.locator("#why")).to_be_focused()
    expect(ada.page.locator("#why [role=status]")).to_contain_text("Identical")
    ada.page.keyboard.press("m")
    expect(ada.page.locator("#text")).to_be_focused()
    ada.page.keyboard.press("ArrowUp")
    for key in ("Escape", "m", "Escape"):  # the drawer is closed first
        ada.page.keyboard.press(key)
    expect(ada.page.locator("#editing")).to_be_hidden()
    expect(ada.page.locator("#text")).to_have_value("")
    ada.page.keyboard.press("ArrowUp")
    expect(ada.page.locator("#text")).to_have_value("a b\nc")
    ada.page.keyboard.type(" d")
    ada.page.keyboard.press("Enter")
    expect(ada.page.locator("article.person .raw")).to_have_text("a b\nc d")
    expect(ada.page.locator(ENDED)).to_have_count(1)
    ada.page.get_by_role("button", name="Version before").click()
    expect(ada.page.locator("article.person .raw")).to_have_text("a b\nc")
    assert [each["parent"] for each in ada.stored["messages"] if each["role"] == "user"] == ["", ""]
    ada.page.get_by_role("button", name="Again").press("Enter")
    expect(ada.page.locator("article.answer .tools")).to_contain_text("2 of 2")
    expect(ada.page.locator("article.answer")).to_be_focused()
    assert said["text"] == "a b\nc"
    expect(ada.page.locator("#differences")).to_have_text("most tokens 8")
    ada.page.get_by_role("button", name="Reset").press("Enter")
    expect(ada.page.locator("#differing")).to_be_hidden()
    expect(ada.page.locator("#max_tokens")).to_have_value("")
    ada.quiet()


def exported(ada: Reader, choice: str) -> str:
    """The text of an export by keyboard."""
    ada.page.get_by_role("button", name="Export").press("Enter")
    ada.page.get_by_role("radio", name=choice).check()
    assert ada.tab.violations() == []
    with ada.page.expect_download() as saved:
        ada.page.keyboard.press("Enter")
    return saved.value.path().read_bytes().decode()


def test_a_reload_shows_the_branch_that_has_the_newest_message(reading: Callable[..., Reader]) -> None:
    ada = reading()
    ada.say("first", ended=1)
    ada.say("second", ended=2)
    ada.page.get_by_role("button", name="Again").first.click()
    expect(ada.page.locator("article.answer .tools").first).to_contain_text("2 of 2")
    expect(ada.page.locator(ENDED)).to_have_count(1)
    expect(ada.page.locator(".gone")).to_contain_text("2 later messages are kept")
    ada.page.get_by_role("button", name="Show them").press("Enter")
    expect(ada.page.locator("article.answer").first).to_be_focused()
    ada.say("third", ended=3)
    ada.page.reload()
    expect(ada.page.locator("article.person .raw")).to_have_text(["first", "second", "third"])
    expect(ada.page.locator("article.answer .tools").first).to_contain_text("1 of 2")
    messages = ada.stored["messages"]
    ada.world.served.plant("chat", Answer(name=messages[1]["answer"], moved=2))
    once, everything = exported(ada, "What is shown"), exported(ada, "Everything")
    versions = [[f"version {number} of 2" in text for number in (1, 2)] for text in (once, everything)]
    assert versions == [[True, False], [True, True]]
    [other] = [each for each in messages if each["parent"] == messages[0]["id"] and each is not messages[1]]
    for text, said in ((once, [each for each in messages if each is not other]), (everything, messages)):
        assert [text.count(f"\n\n{each['text']}") >= 1 for each in said] == [True] * len(said)
        assert text.count("It was cut") == sum(each["finished"] == "length" for each in said)
        assert text.count("it moved 2 times") == 1


def test_the_empty_page_tells_what_the_model_learnt_and_offers_prompts_of_it(
    reading: Callable[..., Reader], world: World
) -> None:
    conversations = published(world.served, demonstrations())
    spec = JobSpec(steps=40, dataset_manifest_key=conversations, typed_training=Training(program="sft"))
    world.served.plant("scheduler", Job(name="jobs/chat", spec=spec))
    ada = reading()
    expect(ada.page.locator("#empty-past")).to_contain_text("It learnt from 60 conversations")
    expect(ada.page.locator("#empty-trainings")).to_have_text("sft, 40 steps")
    offered = ada.page.locator("#prompts button")
    expect(offered).to_have_count(4)
    assert ada.tab.violations() == []
    assert ada.box("#prompts")["y"] < ada.box("#text")["y"]
    prompt = offered.first.text_content()
    offered.first.press("Enter")
    expect(ada.page.locator(ENDED)).to_have_count(1)
    expect(ada.page.locator("article.person .raw")).to_have_text(prompt or "")
    expect(ada.page.locator("#empty")).to_be_hidden()
    ada.quiet()


DRAFTS = "Object.keys(localStorage).filter(key => key.startsWith('tutti/chat/drafts/')).map(key => localStorage[key])"


def test_conversations_are_listed_renamed_found_and_deleted_with_their_drafts(reading: Callable[..., Reader]) -> None:
    ada = reading()
    ada.say("about wool", ended=1)
    ada.page.get_by_role("button", name="Rename").click()
    ada.page.get_by_role("textbox", name="Title of the conversation").fill("Sheep & goats")
    ada.page.keyboard.press("Enter")
    expect(ada.page.get_by_role("heading", name="Sheep & goats")).to_be_visible()
    first, text = ada.page.url, ada.page.locator("#text")
    text.fill("unsent wool")
    ada.world.ada.answered(ada.world.ada.say("about ice"))
    ada.page.locator("#new").click()
    expect(text).to_have_value("")
    text.fill("unsent")
    temperature = ada.page.locator("#temperature")
    ada.page.locator("#settings-open").click()
    temperature.fill("0.5")
    ada.page.reload()
    expect(text).to_have_value("unsent")
    expect(ada.page.locator("#differences")).to_contain_text("temperature 0.5")
    expect(temperature).to_have_value("0.5")
    ada.say("about ice", ended=1)
    expect(ada.page.locator("#conversations a", has_text="about ice").locator("small")).to_have_count(2)
    ada.page.get_by_role("searchbox").fill("wool")
    expect(ada.page.locator("#conversations a")).to_have_text(["Sheep & goats"])
    ada.page.locator("#conversations a").click()
    expect(ada.page.locator("article.person .raw")).to_have_text("about wool")
    expect(text).to_have_value("unsent wool")
    assert ada.page.url == first
    expect(temperature).to_have_value("")
    with ada.page.expect_download() as saved:
        ada.page.get_by_role("button", name="Export").click()
    assert "about wool" in saved.value.path().read_text()
    ada.page.get_by_role("button", name="Delete").click()
    ada.page.locator("#dialog-ok").click()
    expect(ada.page.locator("#none")).to_be_visible()
    expect(text).to_have_value("")
    assert ada.page.url == f"{ada.world.served.url}/chat"
    assert ada.page.evaluate(DRAFTS) == []
    ada.page.goto(first)
    expect(ada.page.locator("#notice")).to_contain_text("is not here")
    expect(ada.page.locator("#empty")).to_be_visible()
    ada.page.get_by_role("link", name="Begin a new one").press("Enter")
    expect(ada.page.locator("#notice")).to_be_hidden()
    assert ada.page.url == f"{ada.world.served.url}/chat"
    text.fill("unsent")
    assert ada.page.evaluate(DRAFTS) == ["unsent"]
    ada.page.get_by_role("button", name="Log out").click()
    expect(ada.page.get_by_role("heading", name="You are logged out")).to_be_visible()
    ada.page.wait_for_function(f"{DRAFTS}.length === 0")
    assert [each for each in ada.tab.heard if "404" not in each] == []


def test_the_list_covers_a_small_screen_until_a_conversation_is_chosen(reading: Callable[..., Reader]) -> None:
    ada = reading(width=NARROW)
    ada.say("first " * 12, ended=1)
    ada.say("second\n" * 12, ended=2)
    menu, shelf = ada.page.locator("#menu"), ada.page.locator("#shelf")
    assert ada.page.evaluate("scrollY") > 0
    expect(menu).to_be_in_viewport()
    menu.press("Enter")
    expect(shelf).to_be_in_viewport(ratio=1)
    expect(ada.page.locator("#new")).to_be_focused()
    ada.page.keyboard.press("Escape")
    expect(shelf).to_be_hidden()
    expect(menu).to_be_focused()
    menu.press("Enter")
    chosen = ada.page.locator("#conversations [aria-current]")
    cut = ada.box("#conversations [aria-current]")["height"]
    chosen.focus()
    assert ada.box("#conversations [aria-current]")["height"] > cut, "the whole title"
    ada.page.keyboard.press("Enter")
    expect(shelf).to_be_hidden()
    expect(ada.page.locator("#turns")).to_be_focused()
    menu.press("Enter")
    ada.page.locator("#text").focus()
    expect(shelf).to_be_hidden()
    menu.click()
    ada.page.locator("#shelf-close").click()
    expect(shelf).to_be_hidden()
    ada.quiet()


def test_two_tabs_of_one_conversation_lose_and_double_nothing(reading: Callable[..., Reader]) -> None:
    ada = reading()
    ada.say("first", ended=1)
    other = ada.tab.context.new_page()
    other.set_viewport_size({"width": 800, "height": 320})  # the messages fill more than it
    other.goto(ada.page.url)
    expect(other.locator(ENDED)).to_have_count(1)
    ada.say("second", ended=2)
    other.locator("#text").fill("third")
    other.locator("#text").press("Enter")
    expect(other.locator("#notice")).to_contain_text("Your message was not sent")
    expect(other.locator("#notice")).to_be_in_viewport()
    expect(other.locator("article.person .raw")).to_have_text(["first", "second"])
    expect(other.locator("#text")).to_have_value("third")
    other.locator("#text").press("Enter")
    expect(other.locator(ENDED)).to_have_count(3)
    ada.page.bring_to_front()
    ada.page.evaluate("dispatchEvent(new Event('visibilitychange'))")
    expect(ada.page.locator("article.person .raw")).to_have_text(["first", "second", "third"])
    assert [each["text"] for each in ada.stored["messages"] if each["role"] == "user"] == ["first", "second", "third"]


def test_an_answer_goes_on_over_a_reload_and_is_stopped_by_key(reading: Callable[..., Reader]) -> None:
    """A busy machine may need so long for a reload that the router gives the silent replicas up: the answer fails."""
    ada = reading()
    with silent_replicas():
        ada.say("a b c")
        expect(ada.page.locator("article.answer")).to_have_count(1)
        ada.page.reload()
        expect(ada.page.locator("article.answer")).to_have_count(1)
    expect(ada.page.locator(ENDED)).to_have_count(1)
    answer = ada.stored["messages"][-1]
    assert answer["state"] in ("whole", "failed")
    expect(ada.page.locator(".failed")).to_have_count(int(answer["state"] == "failed"))
    ada.await_model()
    expect(ada.page.locator("#send")).to_be_enabled()
    with silent_replicas():
        ada.say("d")
        expect(ada.page.locator("article.answer")).to_have_count(2)
        ada.page.keyboard.press("Escape")
        expect(ada.page.locator("article.answer").last).to_contain_text(STOPPED)


def test_an_answer_that_loses_its_replicas_ends_with_an_error(reading: Callable[..., Reader]) -> None:
    ada = reading()
    with silent_replicas():
        ada.say("a b c")
        expect(ada.page.locator(".failed")).to_contain_text("ended with an error and is not whole: no replica")
    assert ada.stored["messages"][-1]["state"] == "failed"
    assert [each for each in ada.tab.heard if "503" not in each] == [], "a count of tokens needs a model that serves"


def pieces(source: random.Random, text: str, most: int) -> list[str]:
    """A text cut at random places, into pieces of at most `most` characters."""
    found, at = list[str](), 0
    while at < len(text):
        end = at + source.randint(1, most)
        found.append(text[at:end])
        at = end
    return found


def test_a_text_that_grows_is_shown_at_each_piece_as_the_whole_text_would_be(reading: Callable[..., Reader]) -> None:
    source, ada = random.Random(5), reading()
    more = ["", "  ", "```", "-", "| x |", "|--|", "*a **b", "`", "x\r", "1.", ">"]
    lines = [*SECTION.split("\n"), *TABLE.split("\n"), *more]
    texts = [SECTION, *("\n".join(source.choices(lines, k=12)) for _ in range(60))]
    module = ada.page.locator("script[type=module][src*=chat]").evaluate("each => each.src")
    cut = [pieces(source, text, 6) for text in texts]
    assert ada.page.evaluate(GROWN, {"texts": cut, "module": module}) == []
    ada.quiet()


def test_a_chunk_touches_few_nodes_however_long_the_answer_is(reading: Callable[..., Reader], world: World) -> None:
    """The answer is shown by the service as one that is being made; its text is not that of a model.

    Each chunk ends with a word, so each changes the page.
    """
    turns = turns_of(world)
    who = Principal(world.people["ada"], frozenset(), DEFAULT_TENANT, Method.SESSION)
    ident = str(uuid.uuid4())
    live = Live(who, f"answers/{ident}")
    said = Message(str(uuid.uuid4()), "", USER, "tell me")
    answer = Message(str(uuid.uuid4()), said.id, ASSISTANT, "", RUNNING, answer=live.answer, model="toy")
    turns._live[live.answer] = live
    rows, units = turns._rows, turns._units
    units.run(lambda unit: rows.begin(unit, who, ident, "long"))
    units.run(lambda unit: rows.add(unit, who, ident, 0, [said, answer], {"model": "toy"}))
    ada = reading()
    ada.page.goto(f"{world.served.url}/chat/{ident}")
    begun, rest = SECTION * 10, re.findall(r"(?:\W*\w{1,5}){1,2}", SECTION * 2)
    live.show(Piece(0, begun))
    expect(ada.page.locator("article.answer table")).to_have_count(10)
    ada.page.evaluate(TOUCHED)
    for number, piece in enumerate(rest):
        live.show(Piece(number + 1, piece))
        ada.page.wait_for_function("count => touched.length >= count", arg=number + 1)
    touched = ada.page.evaluate("touched")
    assert len(touched) >= len(rest)
    assert max(touched) <= MOST_TOUCHED
    assert ada.tab.violations() == []
    before = ada.page.locator("article.answer .words").inner_text()
    units.run(lambda unit: rows.finish(unit, live.answer, begun + "".join(rest), "stop"))
    live.show(Piece(None, "", "stop"))
    expect(ada.page.locator(ENDED)).to_have_count(1)
    assert ada.page.locator("article.answer .words").inner_text() == before
    ada.quiet()


def test_the_oldest_turns_leave_visibly(reading: Callable[..., Reader]) -> None:
    ada = reading()
    ada.say("a " * 60, ended=1)
    ada.page.locator("#text").fill("b " * 120)
    expect(ada.page.locator("#room")).to_contain_text("room for the answer: 8 tokens")
    expect(ada.page.locator("#room")).to_contain_text("the 2 oldest messages are not sent")
    expect(ada.page.locator(".gone")).to_contain_text("The 2 messages above do not fit any more")
    expect(ada.page.locator(".gone")).to_contain_text("8 tokens")
    ada.page.locator("#text").fill("c " * 300)
    expect(ada.page.locator("#room")).to_contain_text("Too long")
    ada.page.keyboard.press("Enter")
    expect(ada.page.locator("#notice")).to_contain_text("fewer than 256")
    expect(ada.page.locator("#text")).to_have_value("c " * 300)


def test_a_hostile_answer_and_title_are_shown_harmlessly(reading: Callable[..., Reader], world: World) -> None:
    ada = reading()
    ada.say("hello", ended=1)
    hostile = "\n\n".join([*HOSTILE, "![x](http://elsewhere.example/x.png)", "<style>*{display:none}</style>"])
    running = world.served.running("chat")
    [table] = [each for each in running.service.tables if each.name == "conversation_messages"]
    ident = ada.stored["messages"][-1]["id"]
    planted = update(table).where(table.c.id == ident).values(text=hostile)
    running.host.units.run(lambda unit: unit.tx.execute(planted).close())
    assert running.host.units.run(lambda unit: unit.tx.execute(select(table.c.text)).scalars().all())
    ada.world.ada.post("rename", conversation=ada.stored["id"], title="<img src=x onerror=alert(1)> \u202etxt")
    ada.page.reload()
    shown = ada.page.locator("article.answer .words")
    expect(shown).to_contain_text("<script>alert(1)</script>")
    expect(shown).to_contain_text("U+202E")
    expect(ada.page.locator("#title")).to_contain_text("U+202E")
    ada.page.set_viewport_size({"width": NARROW, "height": 640})
    ada.page.get_by_role("button", name="Why").press("Enter")
    quote = ada.page.get_by_role("group", name="The answer")
    expect(quote).to_contain_text("<script>alert(1)</script>")
    expect(quote).to_be_in_viewport(ratio=1)
    ada.page.locator("#why summary").focus()
    assert ada.box("#why-quote")["y"] + ada.box("#why-quote")["height"] <= ada.box("#why summary")["y"]
    assert ada.page.locator(":is(#turns, #why) :is(script, img, a, style)").count() == 0
    assert ada.page.locator("#conversations :is(img, script)").count() == 0
    ada.quiet()


@pytest.mark.parametrize(("width", "scheme"), [(NARROW, "dark"), (WIDE, "light"), (NARROW, "light"), (WIDE, "dark")])
def test_the_page_is_accessible_and_fits(reading: Callable[..., Reader], width: int, scheme: str) -> None:
    ada = reading(width=width, scheme=scheme)
    ada.say("hello " * 30, ended=1)
    ada.page.locator("#settings-open").click()
    if width == NARROW:
        assert ada.box(".top")["height"] < 100, "two lines"
        assert ada.box("#send")["x"] >= ada.box("#text")["x"] + ada.box("#text")["width"]
        expect(ada.page.locator("#max_tokens")).to_be_in_viewport()
        ada.page.set_viewport_size({"width": width, "height": 320})
        ada.page.locator("#text").evaluate("each => each.scrollIntoView({ block: 'center' })")
        expect(ada.page.locator("#text")).to_be_in_viewport(ratio=1)
        ada.page.set_viewport_size({"width": width, "height": 640})
        expect(ada.page.locator("#shelf")).to_be_hidden()
        ada.page.locator("#menu").click()
    expect(ada.page.locator("#shelf")).to_be_visible()
    assert ada.box("#title")["height"] < (30 if width == NARROW else 60), "one line, or two, of a long title"
    for long in ("#title", "#conversations [aria-current]"):
        expect(ada.page.locator(long)).to_have_attribute("title", re.compile("^(hello ?){30}$"))
    assert ada.tab.violations() == []
    ada.page.keyboard.press("Escape")
    ada.page.get_by_role("button", name="Why").click()
    expect(ada.page.locator("#why")).to_be_visible()
    assert ada.tab.violations() == []
    assert ada.page.evaluate("document.documentElement.scrollWidth") == width
    assert [each for each in ada.page.evaluate(LETTERS) if each["pixels"] < SMALLEST_PIXELS] == []
    assert [each for each in ada.page.evaluate(CUT_OFF) if 'class="unseen"' not in each] == []
    ada.page.locator("#why-close").click()
    ada.page.get_by_role("button", name="Delete").click()
    assert ada.tab.violations() == []
    ada.quiet()
