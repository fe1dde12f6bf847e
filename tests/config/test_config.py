"""The configuration: strict, typed, and every error by its place in the file."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.accounting import Charge
from sfumato.config import Budget, Reference, Version, load_config, read_config
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.errors import ConfigError, InvalidArgument
from sfumato.query.policy import Measure, Prices
from tests.helpers.worlds import new_world

FOLDER = Path("/srv/sfumato")

FULL = """
[ledger]
url = "sqlite:books.db"
[noise]
key_file = "secret/noise.key"
[engines.local]
type = "duckdb"
database = "demo.duckdb"
[tables.engagements]
engine = "local"
source = "engagements"
privacy_unit = "member_id"
version = "daily"
max_k = 50
limit = 2000
cap = "everyone"
[tables.engagements.columns]
article   = { domain = "unknown" }
job_title = { domain = "unknown", max_groups = 1 }
region    = { domain = ["emea", "apac", "amer"], max_groups = 1 }
country   = { domain = { table = "countries", column = "code" }, max_groups = 1, guaranteed = true }
day       = { type = "date" }
[tables.engagements.measures]
members = { count = "units" }
shares  = { count = "rows", max_per_unit = 5 }
visits  = { sum = "n", max_per_unit = 50 }
[budgets.partner]
epsilon_per = 0.15
delta_per   = 1e-10
information = 3000
calls       = 30
resets      = "monthly"
[budgets.everyone]
epsilon_per = 0.15
delta_per   = 1e-10
information = 90000
calls       = 900
mode        = "track"
count_noise = "laplace"
[analysts.anna]
budget = "partner"
organisation = "acme"
[organisations.acme]
budget = "everyone"
"""


def read(text=FULL, environment=None):
    return read_config(text, FOLDER, environment or {})


@pytest.mark.parametrize(
    ("fence", "found"),
    [
        ("", None),
        ("state/fence", FOLDER / "state/fence"),
        ("/var/lib/fence", Path("/var/lib/fence")),
        ("/", Path("/")),  # a folder that is there
        ("postgresql://witness/fence", "postgresql://witness/fence"),
        ("postgres://witness/fence", "postgres://witness/fence"),
    ],
)
def test_a_fence_is_a_path_or_a_database(fence, found):
    for config in (read(f'[ledger]\nfence = "{fence}"'), read("", {"SFUMATO_LEDGER__FENCE": fence})):
        assert config.ledger.fence == found


@pytest.mark.parametrize(
    ("fence", "words"),
    [
        ("mysql://witness", 'must be the path of a file or a folder, or "postgresql://..."'),
        ("sqlite:fence.db", 'must be the path of a file or a folder, or "postgresql://..."'),
        ("not/mounted/", "there is no folder 'not/mounted/'; mount it, or create it"),
    ],
)
def test_what_is_no_place_for_a_fence_is_refused(fence, words):
    with pytest.raises(ConfigError, match=f"^ledger.fence: {re.escape(words)}"):
        read(f'[ledger]\nfence = "{fence}"')


def test_the_whole_file():
    config = read()
    assert config.ledger.url == "sqlite:books.db"
    assert config.key_file == FOLDER / "secret/noise.key"
    assert config.engines["local"].options == {"database": FOLDER / "demo.duckdb"}
    table = config.tables["engagements"]
    assert (table.max_k, table.limit, table.cap, table.version) == (50, 2000, "everyone", Version("daily"))
    assert table.columns["country"].domain == Reference("countries", "code")
    assert table.measures["visits"] == Measure("visits", "sum", "n", 50)
    assert config.budgets["partner"] == Budget(
        Prices(Fraction(3, 20), Fraction(1, 10**10)), Charge(3000, 30), resets="monthly"
    )
    assert config.budgets["everyone"].mode == "track"
    assert (config.analysts["anna"].organisation, config.organisations["acme"]) == ("acme", "everyone")


def test_numbers_are_what_they_say():
    """0.15 in the file is 3/20, not the binary float next to it."""
    assert read().budgets["partner"].prices.epsilon_per == Fraction(3, 20)


LIVE = {
    **dict.fromkeys(["article", "job_title", "region", "country"], "text"),
    "member_id": "integer",
    "day": "date",
    "n": "integer",
}


def test_a_policy_takes_types_from_the_schema_and_domains_from_references():
    policy = read().tables["engagements"].policy(LIVE, {"country": ("fr", "de")}, "v1")
    assert policy.column("day").type == "date"
    assert policy.column("country").domain == ("de", "fr")
    assert policy.column("article").domain is None
    assert (policy.version, policy.limit, policy.max_k) == ("v1", 2000, 50)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({name: kind for name, kind in LIVE.items() if name != "article"}, "columns.article: is not in the table"),
        (LIVE | {"article": "other"}, "columns.article: has a type that cannot be asked about"),
        (LIVE | {"day": "timestamp"}, "columns.day.type: is date, but the column holds timestamp"),
        (
            {name: kind for name, kind in LIVE.items() if name != "member_id"},
            "privacy_unit: member_id is not in the table",
        ),
        (
            {("nn" if name == "n" else name): kind for name, kind in LIVE.items()},
            r"visits.sum: n is not in the table.*nn",
        ),
        (LIVE | {"n": "number"}, "measures.visits.sum: must be a column of whole numbers"),
    ],
)
def test_a_policy_that_does_not_fit_its_table_is_told_by_its_place(schema, words):
    with pytest.raises(ConfigError, match=words):
        read().tables["engagements"].policy(schema, {"country": ("fr", "de")}, "v1")


def test_every_difference_is_listed():
    schema = {"region": "text", "country": "text", "day": "timestamp"}
    problems = [str(problem) for problem in read().tables["engagements"].problems(schema, {"country": ("fr", "de")})]
    assert len(problems) == 5  # the unit, the sum, two columns that are not there and one of another type
    assert any("tables.engagements.privacy_unit" in problem for problem in problems)


def test_accounts_that_pay_together_share_their_prices():
    text = FULL.replace('[organisations.acme]\nbudget = "everyone"', '[organisations.acme]\nbudget = "other"')
    other = "[budgets.other]\nepsilon_per = 0.3\ndelta_per = 1e-10\ninformation = 10\ncalls = 1\n"
    with pytest.raises(ConfigError, match="must have the epsilon_per and delta_per of"):
        read(text + other)


def test_the_folder_is_kept_for_the_sources_of_tables():
    assert read().folder == FOLDER


@pytest.mark.parametrize("value", ['"x"\nfence = "y"', "[" * 5000, "9" * 6000], ids=["lines", "nested", "digits"])
def test_a_variable_is_one_value_or_text(value):
    assert read(environment={"SFUMATO_NOISE__KEY_FILE": value}).key_file == FOLDER / value


def test_moments_carry_a_zone():
    with pytest.raises(InvalidArgument, match=r"^moment: must carry a time zone"):
        Version("daily").at(datetime(2026, 11, 15))


def test_an_empty_file_has_defaults():
    config = read("")
    assert config.ledger.url == "sqlite:ledger.db"
    assert config.key_file == FOLDER / "noise.key"
    assert config.tables == {}


def test_the_environment_wins():
    config = read(
        environment={"SFUMATO_LEDGER__URL": "postgresql://x", "SFUMATO_BUDGETS__PARTNER__CALLS": "7", "HOME": "/"}
    )
    assert config.ledger.url == "postgresql://x"
    assert config.budgets["partner"].cap == Charge(3000, 7)


def changed(old: str, new: str) -> str:
    assert old in FULL
    return FULL.replace(old, new, 1)


WRONG = {
    changed("max_k = 50", "max_kk = 50"): "tables.engagements.max_kk: is not a setting; did you mean max_k?",
    changed("[ledger]", "[leger]"): "leger: is not a setting; did you mean ledger?",
    changed("resets      =", "reset      ="): "budgets.partner.reset: is not a setting; did you mean resets?",
    changed('"monthly"', '"montly"'): "did you mean monthly?",
    changed('type = "duckdb"', 'type = "oracle"'): "engines.local.type: must be one of duckdb",
    changed(
        'engine = "local"', 'engine = "locl"'
    ): "tables.engagements.engine: names an engine that is not in the file",
    changed('cap = "everyone"', 'cap = "nobody"'): "tables.engagements.cap: names a budget",
    changed('budget = "partner"', 'budget = "partners"'): "analysts.anna.budget: names a budget",
    changed('organisation = "acme"', 'organisation = "acne"'): "did you mean acme?",
    changed('privacy_unit = "member_id"', ""): "tables.engagements.privacy_unit: is missing",
    changed("max_k = 50", 'max_k = "50"'): "tables.engagements.max_k: must be a whole number",
    changed("max_k = 50", "max_k = true"): "tables.engagements.max_k: must be a whole number",
    changed("epsilon_per = 0.15", 'epsilon_per = "big"'): "budgets.partner.epsilon_per: must be a number",
    changed("epsilon_per = 0.15", "epsilon_per = 0"): "budgets.partner: epsilon_per: must be greater than zero",
    changed("delta_per   = 1e-10", "delta_per   = 1"): "budgets.partner: delta_per: must lie strictly between 0 and 1",
    changed("delta_per   = 1e-10", "delta_per   = nan"): "budgets.partner",
    changed(
        'count = "units"', 'count = "people"'
    ): "tables.engagements.measures.members.count: must be one of units, rows",
    changed('{ count = "rows", max_per_unit = 5 }', '{ count = "rows" }'): "shares.max_per_unit: is missing",
    changed("max_per_unit = 50", "max_per_unit = 0"): "measures.visits: visits.max_per_unit: must be at least 1",
    changed('domain = "unknown" }', 'domain = "emea" }'): 'must be "unknown" or a list',
    changed('type = "date"', 'type = "dat"'): "columns.day.type: must be one of",
    changed('version = "daily"', 'version = "dayly"'): "tables.engagements.version: must be one of",
    changed('version = "daily"', 'version = { values = "x" }'): "tables.engagements.version.value: is missing",
    changed('version = "daily"', "version = 3"): "tables.engagements.version: must be a rhythm",
    changed("guaranteed = true", 'guaranteed = "yes"'): "country.guaranteed: must be true or false",
    changed("[noise]", "[noise"): "sfumato.toml: is not TOML",
    changed("max_k = 50", "max_k = 0"): "tables.engagements.max_k: must be at least 1",
    changed("limit = 2000", "limit = 5"): "tables.engagements.limit: must be at least 50",
    changed("max_groups = 1 }", "max_groups = 0 }"): "columns.job_title.max_groups: must be at least 1",
    changed("max_groups = 1, guaranteed", "guaranteed"): "columns.country.guaranteed: says that a bound holds",
    changed('["emea", "apac", "amer"]', "[]"): "columns.region.domain: must list one value or more",
    changed('["emea", "apac", "amer"]', '["emea", 3]'): "columns.region.domain: must list one value or more",
    changed("information = 3000", "information = -5"): "budgets.partner.information: must not be negative",
    changed('database = "demo.duckdb"', "timeout_s = 0"): "engines.local.timeout_s: must be at least 1",
    changed("max_k = 50", "max_k = 100001"): "tables.engagements.max_k: must be at most 100000",
    changed("limit = 2000", "limit = 16777217"): "tables.engagements.limit: must be at most 16777216",
    **{
        changed('database = "demo.duckdb"', f'memory_limit = "{size}"'): f"engines.local.memory_limit: must be {words}"
        for size, words in {
            "lots": "a number",
            "2": "a number and",
            "GB": "a number and a",
            "0GB": "a number and a u",
        }.items()
    },
    changed('url = "sqlite:books.db"', 'url = "books.db"'): 'ledger.url: must be "sqlite:FILE"',
    **{
        changed('url = "sqlite:books.db"', f'url = "{url}"'): f"ledger.url: {words}"
        for url, words in {"": "must", "sqlite:": "must be", "sqlite::memory:": 'must be "sqlite'}.items()
    },
    changed('privacy_unit = "member_id"', 'privacy_unit = ""'): "tables.engagements.privacy_unit: must name the column",
    '[engines.e]\ntype = "duckdb"\n[tables.t]\nengine = "e"\nsource = "s"\nprivacy_unit = "u"': "tables.t.measures",
    "a = " + "[" * 5000: "sfumato.toml: is not TOML",
    "ledger = 3": "ledger: must be a section",
    "tables = { t = 3 }": "tables.t: must be a section",
}


@pytest.mark.parametrize(("text", "words"), WRONG.items(), ids=list(WRONG.values()))
def test_mistakes_are_told_by_their_place(text, words):
    with pytest.raises(ConfigError) as error:
        read(text)
    assert words in str(error.value)


def test_a_variable_that_is_no_setting_is_told_too():
    with pytest.raises(ConfigError, match=r"^SFUMATO_LEDGER__ULR: ledger\.ulr is not a setting; did you mean url\?"):
        read(environment={"SFUMATO_LEDGER__ULR": "x"})
    with pytest.raises(ConfigError, match="SFUMATO_LEDGER__URL__X: points below"):
        read(environment={"SFUMATO_LEDGER__URL__X": "x"})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SFUMATO_FOO", "1", "SFUMATO_FOO: foo is not a setting"),
        ("SFUMATO_FOO__BAR", "1", "SFUMATO_FOO__BAR: foo is not a setting"),
        ("SFUMATO_LEDGER", '{ ulr = "x" }', "SFUMATO_LEDGER: ledger.ulr is not a setting; did you mean url?"),
        ("SFUMATO_LEDGER__URL", "oracle://x", 'SFUMATO_LEDGER__URL: ledger.url must be "sqlite:FILE"'),
        (
            "SFUMATO_TABLES__ENGAGEMENTS__MAX_K",
            "many",
            "SFUMATO_TABLES__ENGAGEMENTS__MAX_K: tables.engagements.max_k must",
        ),
        (
            "SFUMATO_BUDGETS__PARTNER__EPSILON_PER",
            "0",
            "SFUMATO_BUDGETS__PARTNER__EPSILON_PER: budgets.partner epsilon_per",
        ),
    ],
)
def test_what_comes_from_a_variable_is_told_by_its_name(name, value, words):
    with pytest.raises(ConfigError) as error:
        read(environment={name: value})
    assert str(error.value).startswith(words)
    assert error.value.setting == name


def test_a_mistake_in_the_file_is_not_blamed_on_a_variable():
    with pytest.raises(ConfigError, match=r"^leger: is not a setting"):
        read(changed("[ledger]", "[leger]"), {"SFUMATO_LEDGER__URL": "sqlite:x.db"})


def test_a_byte_order_mark_is_no_mistake():
    assert read("\ufeff" + FULL) == read()


@pytest.mark.parametrize("size", ["2GB", "1.5 GiB", "512mb", "100KB", "1TB"])
def test_a_memory_limit_is_one_that_the_engine_takes(size):
    text = changed('database = "demo.duckdb"', f'memory_limit = "{size}"')
    assert read(text).engines["local"].options == {"memory_limit": size}
    with DuckDBEngine({}, memory_limit=size) as engine:
        assert engine.tables() == ()


SUNDAY = datetime(2026, 11, 15, 23, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rhythm", "name"),
    [
        ("hourly", "hourly 2026-11-15T23"),
        ("daily", "daily 2026-11-15"),
        ("weekly", "weekly 2026-11-09"),
        ("monthly", "monthly 2026-11"),
        ("fixed", "fixed"),
    ],
)
def test_versions_are_minted_by_the_clock(rhythm, name):
    assert Version(rhythm).at(SUNDAY) == name
    assert Version(rhythm).at(SUNDAY.astimezone(timezone(timedelta(hours=-7)))) == name


def test_versions_are_minted_by_the_owner():
    assert (
        read(changed('version = "daily"', 'version = { value = "v7" }')).tables["engagements"].version.at(SUNDAY)
        == "value v7"
    )


@pytest.mark.parametrize(
    ("resets", "period"),
    [
        ("never", (None, None)),
        ("daily", (date(2026, 11, 15), date(2026, 11, 16))),
        ("weekly", (date(2026, 11, 9), date(2026, 11, 16))),
        ("monthly", (date(2026, 11, 1), date(2026, 12, 1))),
    ],
)
def test_periods_are_in_utc_and_weeks_start_on_monday(resets, period):
    budget = Budget(Prices(Fraction(1), Fraction(1, 2)), Charge(1), resets)
    assert budget.period(SUNDAY) == period
    assert budget.period(SUNDAY.astimezone(timezone(timedelta(hours=9)))) == period


@pytest.mark.parametrize("table", ["engagements", "ENGAGEMENTS"])
def test_a_domain_is_not_read_from_the_people(table):
    with pytest.raises(ConfigError, match="is a table about people; a domain must be public"):
        read(FULL.replace('{ table = "countries", column = "code" }', f'{{ table = "{table}", column = "country" }}'))


def test_an_analyst_has_a_name():
    with pytest.raises(ConfigError, match="a name must not be empty"):
        read(FULL + '[analysts.""]\nbudget = "partner"\n')


class TestPadding:
    """Where several tenants can ask, responses are padded unless the owner says otherwise."""

    @pytest.mark.parametrize(
        ("analysts", "others", "written", "pad_ms"),
        [
            ("anna ben", "", "", 0),
            ("anna", "", "", 0),
            ("", "olga", "", 0),
            ("anna ben", "olga", "", 100),
            ("", "olga omar", "", 100),
            ("anna", "acme", "", 100),
            ("anna", "olga", "pad_ms = 0", 0),
            ("anna", "olga", "pad_ms = 7", 7),
            ("anna", "", "pad_ms = 7", 7),
        ],
    )
    def test_in_force(self, tmp_path: Path, analysts: str, others: str, written: str, pad_ms: int) -> None:
        world = new_world(tmp_path / "world", analysts=analysts, others=others)
        world.path.write_text(world.path.read_text() + f"[service]\n{written}\n")
        assert load_config(world.path).pad_ms == pad_ms
