# Written by `make docs` from the table in __init__.py.
from sfumato.accounting import Charge as Charge
from sfumato.client import AsyncClient as AsyncClient
from sfumato.client import Client as Client
from sfumato.errors import BudgetExhausted as BudgetExhausted
from sfumato.errors import ConfigError as ConfigError
from sfumato.errors import Conflict as Conflict
from sfumato.errors import EngineFailed as EngineFailed
from sfumato.errors import Failed as Failed
from sfumato.errors import InvalidArgument as InvalidArgument
from sfumato.errors import LedgerFailed as LedgerFailed
from sfumato.errors import NotFound as NotFound
from sfumato.errors import NotSupported as NotSupported
from sfumato.errors import RateLimited as RateLimited
from sfumato.errors import Refused as Refused
from sfumato.errors import SfumatoError as SfumatoError
from sfumato.errors import Unauthorized as Unauthorized
from sfumato.query.request import Histogram as Histogram
from sfumato.query.request import TopK as TopK
from sfumato.query.request import Total as Total
from sfumato.release import Count as Count
from sfumato.release import Mean as Mean
from sfumato.release import Quantile as Quantile
from sfumato.release import Released as Released
from sfumato.release import Sum as Sum
from sfumato.release import Units as Units
from sfumato.release import Variance as Variance
from sfumato.release import release_aggregates as release_aggregates
from sfumato.release import release_counts as release_counts
from sfumato.session import Session as Session
from sfumato.wire import Answer as Answer
from sfumato.wire import Receipt as Receipt
from sfumato.wire import Report as Report

open = Session

__version__: str
__all__: list[str]
PUBLIC: dict[str, str]
OTHER_NAMES: dict[str, str]
