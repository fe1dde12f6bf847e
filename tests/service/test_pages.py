"""The pages for people."""

from __future__ import annotations

import re

from tests.helpers.served import Served


class TestPages:
    def test_the_pages_and_what_they_load(self, served: Served) -> None:
        seen: dict[str, str] = {}
        todo = ["/", "/docs", "/problems/budget-exhausted"]
        while todo:
            path = todo.pop()
            reply = served.get(path)
            assert reply.status == 200, path
            seen[path] = reply.body.decode()
            if reply.headers["content-type"].startswith("text/html"):
                assert "default-src 'none'" in reply.headers["content-security-policy"]
                base = path.rpartition("/")[0]
                for found in re.findall(r'(?:href|src)="([^"]+)"', seen[path]):
                    place = f"{base}/{found}" if not found.startswith("../") else f"/{found[3:]}"
                    todo += [place] if place not in seen else []
        assert {"/assets/start.js", "/assets/page.css", "/openapi.json"} <= seen.keys()
        assert "/assets/swagger/swagger-ui-bundle.js" in seen
        ours = [text for path, text in seen.items() if "/swagger/" not in path]
        assert not [text for text in ours if re.search(r"https?://", text)]

    def test_no_other_way_out(self, served: Served) -> None:
        policy = served.get("/docs").headers["content-security-policy"]
        assert "http" not in policy
        assert "*" not in policy
        assert "script-src 'self';" in policy

    def test_the_document_is_json(self, served: Served) -> None:
        reply = served.get("/openapi.json")
        assert reply.headers["content-type"] == "application/json"
        assert reply.json["openapi"] == "3.1.0"
