"""Who may see whom: names, paths, and what is settled with entities of others."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from sfumato.cli import main
from sfumato.errors import NotFound, NotSupported
from tests.helpers.adverts import Adverts, new_adverts

pytestmark = pytest.mark.slow  # a session for each

ROWS = (
    "CREATE TABLE creatives AS SELECT * FROM (VALUES ('7', 'spring', 'n1'), ('7', 'autumn', 'n2'), "
    "('8', 'spring', 'n3')) AS t(account, campaign, creative)",
    "CREATE TABLE ads AS SELECT 1 AS member, TIMESTAMP '2024-03-05' AS at, 'n1' AS creative",
)
SHAPE = {
    "attributes": "",
    "statistics": '\nviews = { count = "rows" }',
    "entities": '{ levels = ["account", "campaign", "creative"], table = "creatives" }',
}


@pytest.fixture
def world(tmp_path):
    return new_adverts(tmp_path, *ROWS, **SHAPE)


def asked(world: Adverts, tenancy: str, entity: dict[str, str], **question: Any) -> None:
    world.write_config(**SHAPE, others=f'[analysts.t]\nbudget = "small"\nentities = {tenancy}\n')
    whole = {"statistics": "views", "start": "2024-03-01", "end": "2024-03-08", "entity": entity}
    with world.open() as session:
        session.report({**whole, **question}, analyst="t")


SPRING_7, SPRING_8 = {"account": "7", "campaign": "spring"}, {"account": "8", "campaign": "spring"}


def test_a_name_is_hers_wherever_it_is(world):
    for entity in (SPRING_7, SPRING_8):
        asked(world, '{ campaign = ["spring"] }', entity)
    with pytest.raises(NotFound):
        asked(world, '{ campaign = ["spring"] }', {"campaign": "autumn"})


def test_a_path_is_one_entity(world):
    tenancy = '{ campaign = [["7", "spring"]] }'
    asked(world, tenancy, SPRING_7)
    asked(world, tenancy, {"campaign": "spring"})  # there is one that she may see
    asked(world, tenancy, {"creative": "n1"})
    for entity in (SPRING_8, {"account": "7"}, {"campaign": "autumn"}, {"creative": "n3"}):
        with pytest.raises(NotFound):
            asked(world, tenancy, entity)


def test_the_whole_tree_is_for_those_who_may_see_it(world):
    asked(world, '{ account = ["7"] }', SPRING_7, options=["tree"])
    with pytest.raises(NotSupported, match="options: tree is for those who may see the whole account; leave it out"):
        asked(world, '{ campaign = [["7", "spring"]] }', SPRING_7, options=["tree"])


@pytest.mark.parametrize(
    ("tenancy", "words"),
    [
        ('{ campaign = ["spring"] }', "several are called campaign 'spring'; write its path, such as ['7', 'spring']"),
        ('{ campaign = [["spring"]] }', "the path of a campaign is [account, campaign]"),
        ('{ campaign = [["7", "spring"]] }', ""),
        ('{ campaign = ["autumn"] }', ""),
    ],
)
def test_policy_check_finds_what_is_not_one_entity(world, tenancy, words):
    world.write_config(**SHAPE, others=f'[analysts.t]\nbudget = "small"\nentities = {tenancy}\n')
    result = CliRunner().invoke(main, ["policy", "check", "--config", str(world.path)])
    assert result.exit_code == (1 if words else 0), result.output
    assert words in " ".join(result.output.split())
