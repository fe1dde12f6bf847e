"""The table of statistics: one row each. Adding a statistic is one file with its class, and one row.

Nothing is imported here: a class is imported when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.release.statistics.base import Statistic

_FORMS = {"cap": "[CAP]", "column": "COL", "bounds": ":LO:HI", "step": "[:STEP]", "quantiles": ":Q[,Q]"}


@dataclass(frozen=True, slots=True)
class StatisticKind:
    """A row of `STATISTICS`. `home` is "module:Class"; `takes` lists the arguments of the class, in their order.

    The arguments: `cap`, the rows that count per person and key; `column`; `bounds`, which are `low` and `high`;
    `step`; `quantiles`; `values`, the number of values per person and key; `intervals`, whether quantiles need them.
    """

    home: str
    takes: tuple[str, ...]
    help: str

    @property
    def class_name(self) -> str:
        return self.home.partition(":")[2]

    @property
    def form(self) -> str:
        """How its option is written: COL:LO:HI[:STEP]."""
        return "".join(_FORMS.get(argument, "") for argument in self.takes)

    def load(self) -> type[Statistic]:
        """Its class."""
        module, _, name = self.home.partition(":")
        found: type[Statistic] = getattr(import_module(module), name)
        return found


_HERE = "sfumato.release.statistics"

STATISTICS: dict[str, StatisticKind] = {
    "units": StatisticKind(f"{_HERE}.units:Units", (), "Distinct people."),
    "count": StatisticKind(f"{_HERE}.count:Count", ("cap",), "Rows, at most CAP (1) per person and key."),
    "sum": StatisticKind(
        f"{_HERE}.sum:Sum", ("column", "bounds", "step"), "Sum of each person's total per key, clamped."
    ),
    "mean": StatisticKind(f"{_HERE}.mean:Mean", ("column", "bounds", "step", "values"), "Mean of values, clamped."),
    "variance": StatisticKind(
        f"{_HERE}.variance:Variance", ("column", "bounds", "step", "values"), "Variance of values, clamped."
    ),
    "quantile": StatisticKind(
        f"{_HERE}.quantile:Quantile",
        ("column", "bounds", "step", "quantiles", "values", "intervals"),
        "Quantiles, such as 0.5,0.9.",
    ),
}
