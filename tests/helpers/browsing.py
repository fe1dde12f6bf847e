"""A browser without a screen: it keeps its cookie, follows what it is told, and reads pages as a browser does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from tests.helpers.served import Reply, Served

HOST = "127.0.0.1:8080"
ORIGIN = f"http://{HOST}"
VOID = frozenset(("meta", "link", "input", "br", "img", "hr"))
Fields = Sequence[tuple[str, str]]


@dataclass(eq=False)
class Node:
    """An element: its tag, its attributes, its parent, and the text and elements in it."""

    tag: str
    attributes: dict[str, str]
    parent: Node | None = None
    children: list[Node | str] = field(default_factory=list)

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default)

    def find(self, tag: str, **attributes: str) -> list[Node]:
        """All elements below with this tag and these attributes, in the order of the page."""
        found = []
        for child in self.children:
            if isinstance(child, Node):
                if child.tag == tag and all(child.attributes.get(key) == value for key, value in attributes.items()):
                    found.append(child)
                found += child.find(tag, **attributes)
        return found

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Page(HTMLParser):
    """A parsed page. Raises where an element is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self._at = Node("", {})
        self.source = text
        self.feed(text)
        self.close()
        assert self._at is self.root, f"<{self._at.tag}> is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len({*names}), (tag, names)
        node = Node(tag, {name: value or "" for name, value in attrs}, self._at)
        self._at.children.append(node)
        if tag not in VOID:
            self._at = node

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._at.children.append(Node(tag, {name: value or "" for name, value in attrs}, self._at))

    def handle_endtag(self, tag: str) -> None:
        assert self._at.tag == tag, f"</{tag}> in <{self._at.tag}>"
        assert self._at.parent is not None
        self._at = self._at.parent

    def handle_data(self, data: str) -> None:
        self._at.children.append(data)

    def find(self, tag: str, **attributes: str) -> list[Node]:
        return self.root.find(tag, **attributes)

    @property
    def text(self) -> str:
        return " ".join(self.root.text.split())

    def form(self, action: str) -> Fields:
        """The fields of the first form for this address, as a browser would send them."""
        form = self.find("form", action=action)[0]
        return form_fields(form)


def form_fields(form: Node) -> list[tuple[str, str]]:
    pairs = []
    for node in _fields(form):
        name = node.get("name")
        if not name:
            continue
        if node.tag == "textarea":
            pairs.append((name, node.text))
        elif node.tag == "select":
            options = node.find("option")
            chosen = [each for each in options if "selected" in each.attributes] or options[:1]
            pairs += [(name, each.get("value")) for each in chosen]
        elif node.get("type") not in ("checkbox", "radio") or "checked" in node.attributes:
            pairs.append((name, node.get("value")))
    return pairs


def _fields(node: Node) -> Iterable[Node]:
    for child in node.children:
        if isinstance(child, Node):
            if child.tag in ("input", "select", "textarea"):
                yield child
            yield from _fields(child)


class Browser:
    """Somebody at the pages of a service."""

    def __init__(self, served: Served, host: str = HOST) -> None:
        self.served, self.host, self.cookies = served, host, dict[str, str]()

    def send(
        self, method: str, path: str, fields: Fields | Mapping[str, str] = (), headers: Mapping[str, str | None] = {}
    ) -> Reply:
        """One request. A header that is None is left out."""
        usual: dict[str, str | None] = {"host": self.host}
        if self.cookies:
            usual["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = b""
        if method == "POST":
            body = urlencode(fields).encode()
            usual |= {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
            usual |= {"content-length": str(len(body))}
        sent = [(name, value) for name, value in (usual | dict(headers)).items() if value is not None]
        reply = self.served.send(method, path, sent, [body])
        for name, value in reply.pairs:
            if name == "set-cookie":
                key, _, rest = value.partition("=")
                self.cookies[key] = rest.partition(";")[0]
        return reply

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, headers=headers)

    def open(self, path: str, status: int = 200) -> Page:
        """The page at a path, after all redirects."""
        return self._follow(self.get(path), status)

    def post(self, path: str, fields: Fields | Mapping[str, str], status: int = 200) -> Page:
        return self._follow(self.send("POST", path, fields), status)

    def _follow(self, reply: Reply, status: int) -> Page:
        while reply.status == 303:
            self.at = dict(reply.pairs)["location"]
            reply = self.get(self.at)
        assert reply.status == status, (reply.status, reply.body[:2000])
        return Page(reply.body.decode())

    def sign_in(self, key: str) -> Page:
        return self.post("/sign-in", {"key": key, "next": "/tables"})


def ask(browser: Browser, sql: str, status: int = 200, **more: Any) -> Page:
    """Ask in SQL, as the page of questions sends it."""
    return browser.post("/answers", {"way": "sql", "sql": sql, "once": "a", **more}, status)
