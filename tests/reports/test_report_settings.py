"""`[reports.*]` and `[analysts.*] entities`: what may be written, and every mistake by its place and in its words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from sfumato.catalog import Catalog
from sfumato.config import AttributeSettings, Config, Reference, ReportSettings, StatisticSettings, read_config
from sfumato.config.settings import GaussianTotal
from sfumato.errors import ConfigError
from sfumato.query.reports.calendar import Calendar
from sfumato.reports.policies import report_policies, report_problems
from tests.helpers.adverts import Adverts, events, hierarchy

FOLDER = Path("/srv/sfumato")

FULL = """
[engines.local]
type = "duckdb"
database = "rows.duckdb"
[tables.ads]
engine = "local"
source = "ads"
privacy_unit = "member"
[tables.ads.columns]
size = { domain = ["large", "small"] }
[tables.people]
engine = "local"
source = "members"
privacy_unit = "member"
[tables.people.measures]
members = { count = "units" }
[reports.ads]
table = "ads"
time = "at"
zone = "Europe/Berlin"
levels = ["12h", "day", "month"]
entities = { levels = ["account", "campaign", "creative"], table = "creatives" }
epsilon = 0.5
min_count = 3
entity_fanout = 2
lag = "90m"
max_versions = 2
max_events_per_unit = 20
exact_totals = "known to the advertiser"
options = ["tree", "monotone"]
[reports.ads.attributes]
title = { domain = { table = "titles", column = "title" } }
size = {}
skills = { domain = ["sql", "rust"], max_values = 2 }
tags = { domain = ["a", "b"], max_values = 3, separator = ";" }
[reports.ads.statistics]
impressions = { count = "rows", where = { kind = "impression" } }
clicks = { count = "rows", where = { kind = "click" }, of = "impressions", epsilon = 2 }
conversions = { count = "rows", of = "clicks", epsilon = { 12h = 0.1, day = 0.2, month = 0.3 } }
[budgets.small]
epsilon_per = 0.1
delta_per = 1e-9
information = 100
calls = 10
[analysts.anna]
budget = "small"
entities = { account = ["7"], campaign = ["8", "9"] }
[analysts.own]
budget = "small"
"""
LEAST = """
[engines.local]
type = "duckdb"
[tables.ads]
engine = "local"
source = "ads"
[reports.ads]
table = "ads"
time = "at"
[reports.ads.statistics]
clicks = { sum = "n", epsilon = 1 }
"""


def read(text: str = FULL, environment: dict[str, str] | None = None) -> Config:
    return read_config(text, FOLDER, environment or {})


def changed(old: str, new: str, text: str = FULL) -> str:
    assert old in text
    return text.replace(old, new, 1)


def half(levels: str = "12h day month", epsilon: Fraction = Fraction(1, 2)) -> dict[str, Fraction]:
    return dict.fromkeys(levels.split(), epsilon)


def test_the_whole_section():
    assert read().reports["ads"] == ReportSettings(
        name="ads",
        table="ads",
        time="at",
        calendar=Calendar(("12h", "day", "month"), "Europe/Berlin"),
        statistics={
            "impressions": StatisticSettings(None, {"kind": "impression"}, half()),
            "clicks": StatisticSettings(None, {"kind": "click"}, half(epsilon=Fraction(2)), "impressions"),
            "conversions": StatisticSettings(
                None, {}, {"12h": Fraction(1, 10), "day": Fraction(1, 5), "month": Fraction(3, 10)}, "clicks"
            ),
        },
        attributes={
            "title": AttributeSettings(Reference("titles", "title")),
            "size": AttributeSettings(None),
            "skills": AttributeSettings(("sql", "rust"), 2),
            "tags": AttributeSettings(("a", "b"), 3, ";"),
        },
        levels=("account", "campaign", "creative"),
        entities="creatives",
        min_count=3,
        fanout=2,
        lag=timedelta(minutes=90),
        max_versions=2,
        cap=20,
        exact_totals=True,
        options=("monotone", "tree"),
    )
    assert read().analysts["anna"].entities == {"account": ("7",), "campaign": ("8", "9")}
    assert read().analysts["own"].entities is None


def test_what_may_be_left_out():
    assert read(LEAST).reports["ads"] == ReportSettings(
        name="ads",
        table="ads",
        time="at",
        calendar=Calendar(("day", "month", "year"), "UTC"),
        statistics={"clicks": StatisticSettings("n", {}, half("day month year", Fraction(1)))},
    )


def test_gaussian_noise():
    text = changed("clicks = {", "views = {", LEAST)
    text = changed(", epsilon = 1", "", text)
    text = changed('time = "at"', 'time = "at"\nnoise = "gaussian"\nepsilon = { total = 0.5 }\ndelta = 1e-7', text)
    found = read(text).reports["ads"]
    assert found.gaussian == GaussianTotal(Fraction(1, 2), Fraction(1, 10**7))
    assert found.statistics == {"views": StatisticSettings("n", {}, {})}
    assert read(changed('time = "at"', 'time = "at"\nnoise = "laplace"', LEAST)).reports == read(LEAST).reports


@pytest.mark.parametrize(("lag", "found"), [("0m", 0), ("30m", 30), ("6h", 360), ("2d", 2880)])
def test_lags(lag, found):
    assert read(changed('"90m"', f'"{lag}"')).reports["ads"].lag == timedelta(minutes=found)


@pytest.mark.parametrize(
    "levels", ['["hour", "day"]', '["3h", "6h", "12h", "day", "week"]', '["month", "year"]', '["week"]']
)
def test_levels(levels):
    assert read(changed('time = "at"', f'time = "at"\nlevels = {levels}', LEAST)).reports["ads"].calendar.zone == "UTC"


def test_an_epsilon_goes_by_the_name_that_the_level_has_in_the_file():
    text = changed('time = "at"', 'time = "at"\nlevels = ["hour", "day"]', LEAST)
    text = changed("epsilon = 1", "epsilon = { hour = 1, day = 2 }", text)
    assert read(text).reports["ads"].statistics["clicks"].epsilon == {"1h": Fraction(1), "day": Fraction(2)}


STATISTIC = "[reports.ads.statistics]\n"
ATTRIBUTE = "[reports.ads.attributes]\n"

ENTITIES = 'entities = { levels = ["account", "campaign", "creative"], table = "creatives" }'
LEVELS = 'levels = ["12h", "day", "month"]'
TENANCY = 'entities = { account = ["7"], campaign = ["8", "9"] }'
KNOWN = "1h, 2h, 3h, 4h, 6h, 8h, 12h, day, week, month, quarter, year"

WHOLE = "{ total = ... }: with Gaussian noise it is what one event is promised, over all its cells in one version"

# (what is changed, into what): the place and the words of the complaint.
WRONG = {
    ("min_count", "min_cuont"): "reports.ads.min_cuont: is not a setting; did you mean min_count?",
    ("zone =", "tz ="): "reports.ads.tz: is not a setting",
    (
        'of = "impressions"',
        'off = "impressions"',
    ): "reports.ads.statistics.clicks.off: is not a setting; did you mean of?",
    ("separator", "seperator"): "reports.ads.attributes.tags.seperator: is not a setting; did you mean separator?",
    (
        'table = "creatives" }',
        'tabel = "creatives" }',
    ): "reports.ads.entities.table: is missing; it must be text in quotes",
    (
        LEVELS,
        'levels = ["day", "week", "month"]',
    ): "reports.ads: levels: a month is not made of whole week ranges; write the finest first, or leave one out",
    (
        LEVELS,
        'levels = ["month", "day"]',
    ): "reports.ads: levels: a day is not made of whole month ranges; write the finest first, or leave one out",
    (LEVELS, 'levels = ["5h", "day"]'): f"reports.ads: levels: there is no level '5h'; there are {KNOWN}",
    (
        LEVELS,
        'levels = ["dya", "month"]',
    ): f"reports.ads: levels: there is no level 'dya'; there are {KNOWN}; did you mean day?",
    (LEVELS, "levels = []"): f"reports.ads: levels: must be a list of levels, finest first: {KNOWN}",
    (LEVELS, 'levels = "day"'): "reports.ads.levels: must be a list of text in quotes",
    (LEVELS, 'levels = ["day", "day"]'): "reports.ads.levels: lists something twice",
    (LEVELS, 'levels = ["1h", "hour"]'): "reports.ads: levels: must not hold 1h twice",
    (LEVELS, "levels = [1]"): "reports.ads.levels: must be a list of text in quotes",
    (
        '"Europe/Berlin"',
        '"Europe/Berln"',
    ): "reports.ads: zone: must be the name of a time zone such as 'UTC' or 'Europe/Berlin'; "
    "did you mean Europe/Berlin?",
    ('"Europe/Berlin"', "2"): "reports.ads.zone: must be text in quotes",
    ("epsilon = 0.5", "epsilon = 0"): "reports.ads.epsilon: must be above 0 and at most 1000",
    ("epsilon = 0.5", "epsilon = -1"): "reports.ads.epsilon: must not be negative",
    ("epsilon = 0.5", "epsilon = 1001"): "reports.ads.epsilon: must be above 0 and at most 1000",
    ("epsilon = 0.5", "epsilon = inf"): "reports.ads: epsilon: must be finite, not NaN or infinite",
    ("epsilon = 0.5", "epsilon = nan"): "reports.ads: epsilon: must be finite, not NaN or infinite",
    (
        "epsilon = 0.5",
        'epsilon = "1"',
    ): "reports.ads.epsilon: must be a number, one for each level of time, or { total = ... }",
    (
        "epsilon = 0.5",
        "epsilon = true",
    ): "reports.ads.epsilon: must be a number, one for each level of time, or { total = ... }",
    (
        "epsilon = 0.5\n",
        "\n",
    ): "reports.ads.statistics.impressions.epsilon: is missing, here and in the report; "
    "it is that of one cell, such as 1",
    ("epsilon = 0.5", "epsilon = { 12h = 1, day = 1 }"): "reports.ads.epsilon.month: is missing; it must be a number",
    (
        "epsilon = 0.5",
        "epsilon = { 12h = 1, day = 1, month = 0 }",
    ): "reports.ads.epsilon.month: must be above 0 and at most 1000",
    (
        "epsilon = 0.5",
        "epsilon = { 12h = 1, day = 1, month = 1, year = 1 }",
    ): "reports.ads.epsilon.year: is not a setting",
    (
        "epsilon = 0.5",
        "epsilon = 0.5\ndelta = 1e-6",
    ): 'reports.ads.delta: is for Gaussian noise: write noise = "gaussian", or leave it out; '
    "Laplace noise has no delta",
    (
        "epsilon = 0.5",
        'epsilon = 0.5\nnoise = "normal"',
    ): "reports.ads.noise: must be one of laplace, gaussian",
    ("epsilon = 0.5", 'noise = "gaussian"\nepsilon = 0.5\ndelta = 1e-6'): f"reports.ads.epsilon: must be {WHOLE}",
    (
        "epsilon = 0.5",
        'noise = "gaussian"\nepsilon = { 12h = 1, day = 1, month = 1 }\ndelta = 1e-6',
    ): f"reports.ads.epsilon: must be {WHOLE}",
    ("epsilon = 0.5", 'noise = "gaussian"\ndelta = 1e-6'): f"reports.ads.epsilon: is missing; it must be {WHOLE}",
    (
        "epsilon = 0.5",
        'noise = "gaussian"\nepsilon = { total = 1, day = 1 }\ndelta = 1e-6',
    ): "reports.ads.epsilon.day: is not a setting",
    (
        "epsilon = 0.5",
        'noise = "gaussian"\nepsilon = { total = 0 }\ndelta = 1e-6',
    ): "reports.ads.epsilon.total: must be above 0 and at most 100",
    (
        "epsilon = 0.5",
        'noise = "gaussian"\nepsilon = { total = 101 }\ndelta = 1e-6',
    ): "reports.ads.epsilon.total: must be above 0 and at most 100",
    (
        "epsilon = 0.5",
        'noise = "gaussian"\nepsilon = { total = 1 }',
    ): "reports.ads.delta: is missing; Gaussian noise promises an epsilon but for a small delta, such as 1e-6",
    (
        "epsilon = 0.5",
        'noise = "gaussian"\nepsilon = { total = 1 }\ndelta = 0.01',
    ): "reports.ads.delta: must be from 1e-15 to 0.001",
    (
        "epsilon = 0.5",
        'noise = "gaussian"\nepsilon = { total = 1 }\ndelta = 0',
    ): "reports.ads.delta: must be from 1e-15 to 0.001",
    (
        "epsilon = 0.5",
        'noise = "gaussian"\nepsilon = { total = 1 }\ndelta = 1e-6',
    ): "reports.ads.statistics.clicks.epsilon: is not for Gaussian noise: the total of the report is divided among all "
    "statistics; leave it out",
    ("12h = 0.1, ", ""): "reports.ads.statistics.conversions.epsilon.12h: is missing; it must be a number",
    ("epsilon = 2", "epsilon = 0"): "reports.ads.statistics.clicks.epsilon: must be above 0 and at most 1000",
    ('"90m"', '"90"'): 'reports.ads.lag: must be a number of minutes, hours or days, such as "30m", "6h" or "2d"',
    ('"90m"', '"1.5h"'): 'reports.ads.lag: must be a number of minutes, hours or days, such as "30m", "6h" or "2d"',
    ('"90m"', '"-1h"'): 'reports.ads.lag: must be a number of minutes, hours or days, such as "30m", "6h" or "2d"',
    ('"90m"', '"1w"'): 'reports.ads.lag: must be a number of minutes, hours or days, such as "30m", "6h" or "2d"',
    ('"90m"', "90"): "reports.ads.lag: must be text in quotes",
    (
        '"known to the advertiser"',
        '"yes"',
    ): "reports.ads.exact_totals: totals without noise have no guarantee; "
    'to admit that write "known to the advertiser", otherwise leave it out',
    (
        '"known to the advertiser"',
        "true",
    ): 'reports.ads.exact_totals: must be "known to the advertiser", which admits that totals without noise have no '
    "guarantee; leave it out otherwise",
    (
        ENTITIES,
        'entities = ["account", "campaign"]',
    ): "reports.ads.entity_fanout: needs a table that lists the children: "
    'entities = { levels = ["account", "campaign"], table = "..." }',
    (
        ENTITIES,
        'entities = "account"',
    ): 'reports.ads.entities: must be a list of columns, or { levels = [...], table = "..." }',
    (
        ENTITIES,
        'entities = { table = "creatives" }',
    ): "reports.ads.entities.levels: is missing; it must be a list of text in quotes",
    (
        ENTITIES,
        'entities = { levels = ["account"] }',
    ): "reports.ads.entities.table: is missing; it must be text in quotes",
    (
        '["account", "campaign", "creative"]',
        '["account", "account"]',
    ): "reports.ads.entities.levels: lists something twice",
    (
        '["account", "campaign", "creative"]',
        '["account", ""]',
    ): "reports.ads.entities.levels: must be a list of text in quotes",
    (
        '["account", "campaign", "creative"]',
        str([f"l{n}" for n in range(9)]),
    ): "reports.ads.entities: there are more than 8",
    ("min_count = 3", "min_count = -1"): "reports.ads.min_count: must be at least 0",
    ("min_count = 3", "min_count = 2.5"): "reports.ads.min_count: must be a whole number",
    ("min_count = 3", "min_count = 1000000001"): "reports.ads.min_count: must be at most 1000000000",
    ("entity_fanout = 2", "entity_fanout = 1001"): "reports.ads.entity_fanout: must be at most 1000",
    ("entity_fanout = 2", "entity_fanout = -1"): "reports.ads.entity_fanout: must be at least 0",
    ("max_versions = 2", "max_versions = 0"): "reports.ads.max_versions: must be at least 1",
    ("max_versions = 2", "max_versions = 1001"): "reports.ads.max_versions: must be at most 1000",
    ("max_events_per_unit = 20", "max_events_per_unit = 0"): "reports.ads.max_events_per_unit: must be at least 1",
    (
        "max_events_per_unit = 20",
        "max_events_per_unit = 1000000001",
    ): "reports.ads.max_events_per_unit: must be at most 1000000000",
    (
        '["tree", "monotone"]',
        '["trees"]',
    ): "reports.ads.options: must be some of monotone, totals, tree, actions, calendar; did you mean tree?",
    ('["tree", "monotone"]', '["tree", "tree"]'): "reports.ads.options: lists something twice",
    ('["tree", "monotone"]', '"tree"'): "reports.ads.options: must be a list of text in quotes",
    ('table = "ads"\ntime', "time"): "reports.ads.table: is missing; it must be text in quotes",
    ('time = "at"\n', "\n"): "reports.ads.time: is missing; it must be text in quotes",
    (
        'of = "clicks"',
        'of = "click"',
    ): "reports.ads.statistics.conversions.of: 'click' is not a statistic here; did you mean clicks?",
    (
        'count = "rows", where = { kind = "impression" }',
        'count = "units"',
    ): 'reports.ads.statistics.impressions.count: must be "rows"; a column of counts is added up by sum = "..."',
    (
        'count = "rows", where = { kind = "impression" }',
        "",
    ): "reports.ads.statistics.impressions.count: is missing; it must be text in quotes",
    (
        'where = { kind = "impression" }',
        'where = "impression"',
    ): "reports.ads.statistics.impressions.where: must be a filter, such as { kind = 'click' }",
    (
        STATISTIC,
        STATISTIC + 'start = { count = "rows" }\n',
    ): "reports.ads.statistics.start: is a name that is taken; give it another",
    (
        STATISTIC,
        STATISTIC + 'End = { count = "rows" }\n',
    ): "reports.ads.statistics.End: is a name that is taken; give it another",
    (
        STATISTIC,
        STATISTIC + 'Title = { count = "rows" }\n',
    ): "reports.ads.statistics.Title: is a name that is taken; give it another",
    (
        STATISTIC,
        STATISTIC + 'Clicks = { count = "rows" }\n',
    ): "reports.ads.statistics.clicks: is a name that is taken; give it another",
    (
        STATISTIC,
        STATISTIC + 'sfumato_x = { count = "rows" }\n',
    ): "reports.ads.statistics.sfumato_x: is a name that is taken; give it another",
    (
        STATISTIC,
        STATISTIC + '"" = { count = "rows" }\n',
    ): "reports.ads.statistics.: is a name that is taken; give it another",
    (
        STATISTIC,
        STATISTIC + "".join(f's{n} = {{ count = "rows" }}\n' for n in range(10)),
    ): "reports.ads.statistics: there are more than 12",
    (
        ATTRIBUTE,
        ATTRIBUTE + 'end = { domain = ["a"] }\n',
    ): "reports.ads.attributes.end: is a name that is taken; give it another",
    (
        ATTRIBUTE,
        ATTRIBUTE + "".join(f'a{n} = {{ domain = ["a"] }}\n' for n in range(61)),
    ): "reports.ads.attributes: there are more than 64",
    (
        ATTRIBUTE,
        ATTRIBUTE + "city = {}\n",
    ): "reports.ads.attributes.city.domain: is missing; a report shows only values that are public before any event",
    (
        ATTRIBUTE,
        ATTRIBUTE + 'city = { domain = "unknown" }\n',
    ): "reports.ads.attributes.city.domain: is missing; a report shows only values that are public before any event",
    (
        ATTRIBUTE,
        ATTRIBUTE + 'city = { domain = "Bern" }\n',
    ): 'reports.ads.attributes.city.domain: must be "unknown" or a list, such as ["Bern"]',
    (
        ATTRIBUTE,
        ATTRIBUTE + "city = { domain = [] }\n",
    ): "reports.ads.attributes.city.domain: must list one value or more, all of one type",
    (
        ATTRIBUTE,
        ATTRIBUTE + 'city = { domain = ["a", 1] }\n',
    ): "reports.ads.attributes.city.domain: must list one value or more, all of one type",
    (
        ATTRIBUTE,
        ATTRIBUTE + 'city = { domain = { table = "titles" } }\n',
    ): "reports.ads.attributes.city.domain.column: is missing; it must be text in quotes",
    (
        ATTRIBUTE,
        ATTRIBUTE + 'city = { domain = ["a"], max_values = 0 }\n',
    ): "reports.ads.attributes.city.max_values: must be at least 1",
    (
        ATTRIBUTE,
        ATTRIBUTE + 'city = { domain = ["a"], max_values = 1001 }\n',
    ): "reports.ads.attributes.city.max_values: must be at most 1000",
    (
        'table = "titles"',
        'table = "ads"',
    ): "reports.ads.attributes.title.domain: ads is a table about people; a domain must be public",
    (
        'table = "titles"',
        'table = "Members"',
    ): "reports.ads.attributes.title.domain: Members is a table about people; a domain must be public",
    (
        'table = "creatives"',
        'table = "people"',
    ): "reports.ads.entities.table: people is a table about people; a list of entities must be public",
    (
        'table = "creatives"',
        'table = "ADS"',
    ): "reports.ads.entities.table: ADS is a table about people; a list of entities must be public",
    (
        'source = "ads"\nprivacy_unit = "member"',
        'source = "ads"',
    ): "reports.ads.max_events_per_unit: needs tables.ads.privacy_unit, the column that says whose row it is",
    (
        TENANCY,
        'entities = { acount = ["7"] }',
    ): "analysts.anna.entities.acount: no report has entities of this level; did you mean account?",
    (TENANCY, 'entities = { account = "7" }'): "analysts.anna.entities.account: must be a list of names",
    **{
        (TENANCY, f"entities = {{ account = [{wrong}] }}"): (
            "analysts.anna.entities.account: must be a list of names, or of paths from the top: "
            '["7"] or [["7", "spring"]]'
        )
        for wrong in ("7.5", "true", '""', "[]", "[7.5]", '["7", ""]')
    },
    (TENANCY, 'entities = ["7"]'): 'analysts.anna.entities: must be names by their level, { level = ["..."] }',
}


@pytest.mark.parametrize(("change", "words"), WRONG.items(), ids=list(WRONG.values()))
def test_mistakes_are_told_by_their_place(change, words):
    with pytest.raises(ConfigError) as error:
        read(changed(*change))
    assert str(error.value) == words


def test_a_report_over_a_table_that_is_not_there_is_told_by_its_own_place():
    with pytest.raises(ConfigError) as error:
        read(changed('table = "ads"\ntime', 'table = "asd"\ntime'))
    assert str(error.value) == "reports.ads.table: names a table that is not in the file: 'asd'; did you mean ads?"


def test_a_report_over_a_table_that_is_not_there_beside_tables_with_measures():
    text = changed('source = "ads"', 'source = "ads"\nmeasures = { people = { count = "units" } }')
    with pytest.raises(
        ConfigError, match=r"^reports\.ads\.table: names a table that is not in the file: 'asd'; did you"
    ):
        read(changed('table = "ads"\ntime', 'table = "asd"\ntime', text))


def test_a_zone_that_is_refused_is_not_proposed():
    with pytest.raises(ConfigError) as error:
        read(changed('"Europe/Berlin"', '"localtime"'))
    assert "did you mean localtime" not in str(error.value)


def test_a_table_of_entities_needs_levels():
    with pytest.raises(ConfigError, match="entities"):
        read(changed('["account", "campaign", "creative"]', "[]").replace(TENANCY, ""))


def test_names_of_entities_may_be_whole_numbers():
    found = read(changed(TENANCY, 'entities = { account = [100], campaign = ["8", -9] }'))
    assert found.analysts["anna"].entities == {"account": ("100",), "campaign": ("8", "-9")}


@pytest.mark.parametrize(("entities", "levels"), [("", "[]"), ('entities = ["account"]', '["account"]')])
def test_a_tree_needs_a_table_of_entities(entities, levels):
    text = changed(ENTITIES, entities).replace("entity_fanout = 2\n", "").replace(TENANCY, "")
    with pytest.raises(ConfigError) as error:
        read(text)
    words = f'tree needs a table that lists the children: entities = {{ levels = {levels}, table = "..." }}'
    assert (error.value.setting, error.value.problem) == ("reports.ads.options", words)


@pytest.mark.parametrize("lag", ["999999d", "73000d"])
def test_a_lag_leaves_something_to_show(lag):
    with pytest.raises(ConfigError, match="lag"):
        read(changed('"90m"', f'"{lag}"'))


# -- environment variables --


def test_a_variable_wins_over_the_file():
    found = read(
        environment={
            "SFUMATO_REPORTS__ADS__MIN_COUNT": "9",
            "SFUMATO_REPORTS__ADS__LAG": "2d",
            "SFUMATO_REPORTS__ADS__STATISTICS__CLICKS__EPSILON": "0.25",
            "SFUMATO_ANALYSTS__OWN__ENTITIES": '{ account = ["1"] }',
        }
    )
    report = found.reports["ads"]
    assert (report.min_count, report.lag) == (9, timedelta(days=2))
    assert report.statistics["clicks"].epsilon == half(epsilon=Fraction(1, 4))
    assert found.analysts["own"].entities == {"account": ("1",)}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("REPORTS__ADS__MIN_COUNT", "few", "reports.ads.min_count must be a whole number"),
        ("REPORTS__ADS__MIN_CUONT", "1", "reports.ads.min_cuont is not a setting; did you mean min_count?"),
        ("REPORTS__ADS__ZONE", "Mars", "reports.ads zone: must be the name of a time zone"),
        ("REPORTS__ADS__LEVELS", '["month", "day"]', "reports.ads levels: a day is not made of whole month ranges"),
        ("REPORTS__ADS__EPSILON", "0", "reports.ads.epsilon must be above 0"),
        ("ANALYSTS__ANNA__ENTITIES__ACOUNT", '["1"]', "analysts.anna.entities.acount no report has entities"),
    ],
)
def test_what_comes_from_a_variable_is_told_by_its_name(name, value, words):
    with pytest.raises(ConfigError) as error:
        read(environment={f"SFUMATO_{name}": value})
    assert error.value.setting == f"SFUMATO_{name}"
    assert str(error.value).startswith(f"SFUMATO_{name}: {words}")


# -- against the live schema --

LIVE = """
CREATE TABLE titles AS SELECT unnest(['dentist', 'nurse']) AS title;
CREATE TABLE members AS SELECT 1 AS member;
ALTER TABLE ads ADD COLUMN n INTEGER;
ALTER TABLE ads ADD COLUMN price DOUBLE;
ALTER TABLE ads ADD COLUMN tags VARCHAR;
ALTER TABLE ads ADD COLUMN day DATE;
CREATE TABLE twice AS SELECT 'a' AS account, 'c' AS campaign, 'n0' AS creative UNION ALL SELECT 'b', 'c', 'n0';
CREATE TABLE nothing AS SELECT 'x' AS title LIMIT 0;
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("settings")
    Adverts(folder).write_rows(*hierarchy(1), *events(1), *LIVE.strip().split(";\n"))
    return folder


def _opening(config: Config, catalog: Catalog) -> Iterator[ConfigError]:
    """What opening it for asking says, which a look at the configuration has not."""
    try:
        report_policies(config, catalog)
    except ConfigError as problem:
        yield problem


def problems(folder: Path, text: str = FULL) -> list[str]:
    """What opening it says first, and what a look at the configuration lists."""
    config = read_config(text, folder, {})
    try:
        catalog = Catalog(config)
    except ConfigError as problem:
        return [str(problem)]
    try:
        listed = [str(problem) for problem in report_problems(config, catalog)]
        return listed or [str(problem) for problem in _opening(config, catalog)]
    finally:
        catalog.close()


@pytest.mark.parametrize("table", ["creativs", "creativs.csv", "creativs.parquet"])
def test_a_table_of_entities_that_is_not_there_is_told_by_its_setting(live, table):
    [told] = problems(live, changed('table = "creatives"', f'table = "{table}"'))
    assert told.startswith("reports.ads.entities.table: ")
    assert "creativs" in told


def test_a_domain_that_is_not_there_is_told_by_its_setting(live):
    [told] = problems(live, changed('table = "titles"', 'table = "titels"'))
    assert told.startswith("reports.ads.attributes.title.domain: 'titels' is neither a table nor a view")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_can_list_the_entities(live, ending):
    with duckdb.connect(str(live / "rows.duckdb"), read_only=True) as connection:
        connection.execute(f"COPY creatives TO '{live / 'listed'}.{ending}'")
    text = changed('table = "creatives"', f'table = "listed.{ending}"').replace(TENANCY, "")
    assert problems(live, text) == []


def test_what_fits_has_no_problems(live):
    assert problems(live) == []
    assert problems(live, LEAST.replace('type = "duckdb"', 'type = "duckdb"\ndatabase = "rows.duckdb"')) == []


DIFFERENT = {
    ('time = "at"', 'time = "att"'): "reports.ads.time: att is not in the table; did you mean at?",
    (
        'time = "at"',
        'time = "kind"',
    ): "reports.ads.time: must be a column of moments or of days; kind holds text; "
    'of a CSV file, write [tables.ads.columns] kind = { type = "timestamp" }, and else cast it in a view',
    ('time = "at"', 'time = "n"'): "reports.ads.time: must be a column of moments or of days; n holds integer",
    ('time = "at"', 'time = "day"'): "reports.ads.time: day holds days, which have no 12h; begin the levels with day",
    ("title = {", "titel = {"): "reports.ads.attributes.titel: titel is not in the table; did you mean title?",
    ('column = "title"', 'column = "name"'): "reports.ads.attributes.title.domain: titles has no column 'name'",
    ('table = "titles"', 'table = "nothing"'): "reports.ads.attributes.title.domain: must list 1 to 100000 values",
    ('table = "creatives"', 'table = "titles"'): "reports.ads.entities.levels: titles has no column 'account'",
    (
        'table = "creatives"',
        'table = "twice"',
    ): "reports.ads.entities.table: must list each creative once; otherwise it is not known whose an event is",
    (
        '"account", "campaign", "creative"]',
        '"account", "campaign"]',
    ): "reports.ads.entities: account is not in the table",
    (
        '"account", "campaign", "creative"]',
        '"account", "crative"]',
    ): "reports.ads.entities: account is not in the table",
    (
        STATISTIC,
        STATISTIC + 'views = { count = "rows", where = { kidn = "x" } }\n',
    ): "reports.ads.statistics.views.where: the table has no column 'kidn'; did you mean kind?",
    (
        STATISTIC,
        STATISTIC + 'views = { count = "rows", where = { n = "x" } }\n',
    ): "reports.ads.statistics.views.where: n is compared with something that is not a whole number, such as 42",
    (
        STATISTIC,
        STATISTIC + 'views = { count = "rows", where = { skills = "x" } }\n',
    ): "reports.ads.statistics.views.where: the table has no column 'skills'; "
    "there is member, at, kind, title, size, creative, n, price, tags, day",
    (
        'domain = ["sql", "rust"]',
        "domain = [0.5]",
    ): "reports.ads.attributes.skills.domain: skills is compared with something that is not text, such as 'emea'",
    (
        "size = {}",
        "size = { max_values = 2 }",
    ): "reports.ads.attributes.size.max_values: needs a column of lists, or a separator in a column of text",
    (
        "size = {}",
        'price = { domain = [0.5], separator = ";" }',
    ): "reports.ads.attributes.price.separator: is for text; price holds number",
    (
        "size = {}",
        'price = { domain = ["x"] }',
    ): "reports.ads.attributes.price.domain: price is compared with something that is not a number, such as 0.5",
    (
        "size = {}",
        "n = { domain = [0.5] }",
    ): "reports.ads.attributes.n.domain: n is compared with something that is not a whole number, such as 42",
    (
        'of = "impressions"',
        'of = "conversions"',
    ): "reports.ads.statistics: clicks, conversions follow from one another in a circle",
    (
        STATISTIC,
        STATISTIC + 'views = { sum = "n" }\n',
    ): "reports.ads.statistics: count rows, or add up columns of counts; one report cannot do both",
    (
        'privacy_unit = "member"',
        'privacy_unit = "membre"',
    ): "tables.ads.privacy_unit: membre is not in the table; did you mean member?",
}


@pytest.mark.parametrize(("change", "words"), DIFFERENT.items(), ids=list(DIFFERENT.values()))
def test_what_does_not_fit_the_live_schema_is_told_by_its_place(live, change, words):
    assert problems(live, changed(*change).replace(TENANCY, "")) == [words]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("m", "m is not in the table"),
        ("price", "must be a column of whole numbers; price is not"),
        ("at", "must be a column of whole numbers; at is not"),
    ],
)
def test_what_is_added_up_is_a_column_of_whole_numbers(live, column, words):
    text = LEAST.replace('type = "duckdb"', 'type = "duckdb"\ndatabase = "rows.duckdb"')
    assert problems(live, changed('"n"', f'"{column}"', text)) == [f"reports.ads.statistics.clicks.sum: {words}"]


def test_a_list_of_lists_is_no_attribute(tmp_path):
    Adverts(tmp_path).write_rows("CREATE TABLE ads AS SELECT TIMESTAMP '2026-01-01' AS at, 1 AS n, [[1]] AS codes")
    text = LEAST.replace('type = "duckdb"', 'type = "duckdb"\ndatabase = "rows.duckdb"')
    assert problems(tmp_path, text + "[reports.ads.attributes]\ncodes = { domain = [1] }\n") != []
