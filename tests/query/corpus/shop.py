"""The shop that the statements of the corpus ask about: its rows, and the policy over them.

Every person is within the bounds of the policy, so bounding changes no number. Among the rows are missing people,
missing keys, ties, text beyond ASCII, days, moments and decimals.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from tests.helpers.worlds import key_bytes

PEOPLE = 500
TODAY = date(2026, 6, 30)
"""The day of the data version, which CURRENT_DATE is."""

PRODUCTS = {  # department and price, by name
    "Green Tea": ("Drinks", "3.20"),
    "Black Tea": ("Drinks", "2.95"),
    "Café au lait": ("Drinks", "4.10"),
    "Crème brûlée": ("Bakery", "5.60"),
    "Straßenbrot": ("Bakery", "3.75"),
    "Bagel": ("Bakery", "1.20"),
    "東京バナナ": ("Sweets", "8.80"),
    "Dark Chocolate": ("Sweets", "2.49"),
    "Lakrids": ("Sweets", "6.00"),
    "Olive Oil": ("Pantry", "11.90"),
    "Baker's Flour": ("Pantry", "1.85"),
    "Rice 5%_mix": ("Pantry", "4.40"),
    "Soap": ("Household", "2.10"),
    "Sponge": ("Household", "0.99"),
    "Candle": ("Household", "7.25"),
    "Notebook": ("Office", "3.00"),
    "Pen": ("Office", "1.00"),
    "Desk Lamp": ("Office", "39.90"),
}
DEPARTMENTS = sorted({department for department, _ in PRODUCTS.values()})
REGIONS = ("North", "South", "East", "West")
CHANNELS = ("web", "store", "phone")
STATUSES = ("paid", "open", "refunded")
SHIP_MODES = ("First Class", "Second Class", "Standard Class", "Same Day")
SEGMENTS = ("Consumer", "Corporate", "Home Office")
CITIES = ("Zürich", "Αθήνα", "København", "Lyon", "München", "Reykjavík", "Kraków", "Łódź", "Porto", "são paulo")
COUPONS = ("WELCOME10", "spring-24", "VIP", "Ünique")
PAGES = ("/", "/pricing", "/docs/start", "/docs/api", "/blog/2026/hello", "/blog/2026/sql", "/login", "/Signup")
REFERRERS = ("google", "bing", "newsletter", "friend")
COUNTRIES = ("CH", "DE", "DK", "FR", "GR", "IS")

ORDERS = """
CREATE TABLE orders (
    order_id BIGINT, customer_id BIGINT, order_date DATE, ordered_at TIMESTAMP, shipped_on DATE, product_id INTEGER,
    product VARCHAR, category VARCHAR, region VARCHAR, segment VARCHAR, city VARCHAR, channel VARCHAR, status VARCHAR,
    "Ship Mode" VARCHAR, coupon VARCHAR, quantity INTEGER, amount DECIMAL(9, 2), discount DOUBLE, rating INTEGER,
    is_gift BOOLEAN, due VARCHAR
)
"""
PUBLIC_PRODUCTS = "CREATE TABLE products (product_id INTEGER, name VARCHAR, department VARCHAR, price DECIMAL(9, 2))"
VISITS = """
CREATE TABLE visits (
    visitor_id VARCHAR, started TIMESTAMP, page VARCHAR, referrer VARCHAR, country VARCHAR, device VARCHAR,
    seconds INTEGER, converted BOOLEAN
)
"""


def _words(values: Any) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


CONFIG = f"""
[ledger]
url = "sqlite:ledger.db"
fence = "../state/fence"
[noise]
key_file = "noise.key"
[engines.local]
type = "duckdb"
database = "rows.duckdb"

[tables.orders]
engine = "local"
source = "orders"
privacy_unit = "customer_id"
version = {{ value = "{TODAY}" }}
max_k = 100
limit = 1000
[tables.orders.columns]
order_date = {{ type = "date" }}
ordered_at = {{ type = "timestamp" }}
shipped_on = {{ type = "date" }}
product_id = {{ domain = "unknown" }}
product = {{ domain = "unknown" }}
category = {{ domain = {_words(DEPARTMENTS)} }}
region = {{ domain = {_words(REGIONS)}, max_groups = 1 }}
segment = {{ domain = {_words(SEGMENTS)}, max_groups = 1 }}
city = {{ domain = "unknown", max_groups = 1 }}
channel = {{ domain = {_words(CHANNELS)} }}
status = {{ domain = {_words(STATUSES)} }}
"Ship Mode" = {{ domain = {_words(SHIP_MODES)} }}
coupon = {{ domain = "unknown" }}
quantity = {{ domain = [1, 2, 3, 4, 5] }}
amount = {{ domain = "unknown", min = 0, max = 300, step = 0.01, max_per_unit = 6 }}
discount = {{ domain = "unknown" }}
rating = {{ domain = [1, 2, 3, 4, 5], min = 1, max = 5, step = 1, max_per_unit = 6 }}
is_gift = {{ domain = [true, false] }}
due = {{ domain = "unknown" }}
[tables.orders.measures]
customers = {{ count = "units" }}
orders_count = {{ count = "rows", max_per_unit = 6 }}
items = {{ sum = "quantity", max_per_unit = 30 }}

[tables.products]
public = true
engine = "local"
source = "products"
key = "product_id"

[tables.visits]
engine = "local"
source = "visits"
privacy_unit = "visitor_id"
version = {{ value = "{TODAY}" }}
max_k = 50
limit = 1000
[tables.visits.columns]
started = {{ type = "timestamp" }}
page = {{ domain = "unknown", max_groups = 5 }}
referrer = {{ domain = "unknown" }}
country = {{ domain = {_words(COUNTRIES)}, max_groups = 1 }}
device = {{ domain = ["desktop", "mobile", "tablet"], max_groups = 3 }}
seconds = {{ domain = "unknown" }}
converted = {{ domain = [true, false] }}
[tables.visits.measures]
visitors = {{ count = "units" }}
views = {{ count = "rows", max_per_unit = 5 }}

[budgets.all]
epsilon_per = 0.15
delta_per = 1e-10
information = 1000000
calls = 1000000
[analysts.anna]
budget = "all"
[analysts.ben]
budget = "all"
"""


def write_shop(folder: Path) -> Path:
    """The rows, a noise key and the policy in a folder; the path of the policy."""
    folder.mkdir(parents=True, exist_ok=True)
    coin = random.Random(24)
    with duckdb.connect(str(folder / "rows.duckdb")) as connection:
        connection.execute(ORDERS)
        connection.execute(VISITS)
        connection.execute(PUBLIC_PRODUCTS)
        products = [(place, name, *rest) for place, (name, rest) in enumerate(PRODUCTS.items(), 1)]
        tables = {"products": products, "orders": [*_orders(coin)], "visits": [*_visits(coin)]}
        for table, rows in tables.items():
            places = ", ".join(["UNNEST(?)"] * len(rows[0]))
            connection.execute(f"INSERT INTO {table} SELECT {places}", [[*cells] for cells in zip(*rows, strict=True)])
    (folder / "noise.key").write_bytes(key_bytes())
    (folder / "noise.key").chmod(0o600)
    (folder / "sfumato.toml").write_text(CONFIG, encoding="utf-8")
    return folder / "sfumato.toml"


def _skewed(coin: random.Random, values: Any) -> Any:
    """One of the values; earlier ones more often."""
    return values[int(len(values) * coin.random() ** 1.6)]


def _orders(coin: random.Random) -> Iterator[tuple[Any, ...]]:
    number = 1000
    for person in range(PEOPLE + 3):
        customer = person + 1 if person < PEOPLE else None
        region, segment, city = coin.choice(REGIONS), _skewed(coin, SEGMENTS), coin.choice([*CITIES, None])
        for _ in range(coin.randint(1, 6)):
            number += 1
            product = _skewed(coin, [*PRODUCTS])
            department, price = PRODUCTS[product]
            at = datetime(2025, 1, 1) + timedelta(minutes=coin.randrange(545 * 24 * 60))
            quantity = coin.choice((1, 1, 1, 2, 2, 3, 4, 5))
            yield (
                *(number, customer, at.date(), at, coin.choice([None, at.date() + timedelta(days=coin.randint(0, 9))])),
                *([*PRODUCTS].index(product) + 1, product, department, region, segment, city),
                *(_skewed(coin, CHANNELS), _skewed(coin, STATUSES), _skewed(coin, SHIP_MODES)),
                *(coin.choice([None, None, *COUPONS]), quantity, f"{float(price) * quantity:.2f}"),
                *(coin.choice((None, 0.0, 0.05, 0.1, 0.25)), coin.choice((None, 1, 2, 3, 4, 4, 5, 5))),
                *(coin.random() < 0.2, f"{at:%d/%m/%Y}"),
            )


def _visits(coin: random.Random) -> Iterator[tuple[Any, ...]]:
    for person in range(PEOPLE):
        country = _skewed(coin, COUNTRIES)
        for _ in range(coin.randint(1, 5)):
            at = datetime(2026, 5, 1) + timedelta(seconds=coin.randrange(61 * 24 * 3600))
            yield (
                *(f"v-{person:04}", at, _skewed(coin, PAGES), coin.choice([None, *REFERRERS]), country),
                *(_skewed(coin, ("mobile", "desktop", "tablet")), coin.choice((0, 1, 5, 12, 30, 30, 61, 300, 1800))),
                coin.random() < 0.15,
            )
