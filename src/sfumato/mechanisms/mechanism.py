"""What every mechanism is: a record of its parameters that knows its charge and its error before the data.

|                                | at most max_groups groups per person       | any number per person         |
|--------------------------------|--------------------------------------------|-------------------------------|
| the domain is public           | `known_laplace`, `known_gaussian`          | `known_gumbel`                |
| the domain is part of the data | `unknown_laplace`, `unknown_gaussian`      | `unknown_gumbel`              |
| ..., and every group is read   | `threshold_laplace`, `threshold_gaussian`  |                               |

All of them protect one person under add/remove neighbours, for counts that grow by 0 to tau when a person is
added. Each is a record (`KnownLaplace`, ...) and a function that builds the record and runs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, get_args

from sfumato.accounting.charges import Charge
from sfumato.accounting.numbers import positive, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Noise, blamed_on
from sfumato.mechanisms.random import Rng
from sfumato.mechanisms.release import K, Release, Step
from sfumato.mechanisms.stream import ContextField, context

CountNoise: TypeAlias = Literal["laplace", "gaussian"]
Start: TypeAlias = Literal["zero", "cutoff"]

UNIT = Charge(1)
CALL = Charge(0, 1)

# What a row reveals: values that never change, so lists may share them.
_pick, _count = (lru_cache(maxsize=4096)(partial(Step, kind, UNIT)) for kind in ("pick", "count"))

MAX_EPSILON = 100
MAX_TAU = 2**31
MAX_GROUPS = 2**40
MAX_ROWS = 2**24


class ShownSizes(NamedTuple):
    """The sizes of groups that are shown half of the time and 95 % of the time, from the noise alone.

    Each is the smallest count, before noise, that is shown with this probability. It starts at zero, or at the first
    count out of sight (`above` is "cutoff"): the largest one that the mechanism does not consider. It says what the
    mechanism withholds. A list can be too short for a group that is not withheld.
    """

    half: int
    most: int
    above: Start

    @property
    def rarely(self) -> int:
        """Smaller groups are shown at most one time in 20: the noise is symmetric, so `half` is in the middle."""
        return max(2 * self.half - self.most, 0)


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """A question's private form: parameters, worst-case charge and error, all known before the data is."""

    name: ClassVar[str]
    noise_parameters: ClassVar[tuple[str, ...]]
    """The fields that noise depends on, besides epsilon and tau. Their names are hashed."""

    epsilon: Fraction
    tau: int = 1

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        """Build the record from what a caller wrote: exact numbers, or an error that names the argument."""
        known = {field.name: field.default is MISSING for field in fields(cls)}
        for name in sorted(arguments.keys() - known.keys()):
            raise InvalidArgument(name, f"is not an argument of {cls.name}; those are {', '.join(known)}")
        longest = "k" if arguments.get("max_k") is None else "max_k"
        rows = arguments.get(longest)
        if "max_k" in known:
            arguments["max_k"] = rows
        if "limit" in known and arguments.get("limit") is None:
            # By default it may look at ten times its longest list, and at a thousand rows at least.
            rows = 1 if rows is None else whole(longest, rows, at_least=1, at_most=MAX_ROWS // 10)
            arguments["limit"] = max(10 * rows, 1000)
        for name, required in known.items():
            if required and name not in arguments:
                raise InvalidArgument(name, f"is required by {cls.name}")
        mechanism = cls(**arguments)
        with blamed_on("epsilon"):
            mechanism.noise  # noqa: B018
        return mechanism

    def __post_init__(self) -> None:
        # Stored as what they were checked to be: exact numbers of Python's own, not numpy's.
        self.__dict__.update(
            epsilon=positive("epsilon", self.epsilon, at_most=MAX_EPSILON),
            tau=whole("tau", self.tau, at_least=1, at_most=MAX_TAU),
        )

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The law of the noise on a count."""

    @abstractmethod
    def steps(self, rows: int, *, stopped: bool) -> tuple[Step, ...]:
        """The steps behind a list of this length, which noise, and not k, may have ended."""

    @property
    @abstractmethod
    def worst(self) -> tuple[Step, ...]:
        """The steps of the costliest outcome. Whatever the data, no other step is revealed but a stop."""

    @property
    @abstractmethod
    def reserve(self) -> Charge:
        """The most this can cost: the charges of `worst`, added up."""

    @property
    def least(self) -> Charge:
        """The least this can cost."""
        return self.reserve

    def group_delta(self, people: int) -> float:
        """The delta for `people` people together: the chance that a group is shown that only these people are in."""
        if self.reserve.calls:
            raise NotImplementedError(f"{self.name} has calls, and must say what they show of several people")
        return 0.0

    @property
    def error95(self) -> int | None:
        """The half-width that holds with 95 % for one count; None where no count is released."""
        return self.noise.half_width()

    def list_error95(self, groups: int) -> int | None:
        """The half-width for the counts of a list out of so many `groups`.

        Of the counts that are shown, one in 20 is outside it on average.
        """
        return self.error95

    @property
    def visible(self) -> ShownSizes | None:
        """How large a group must be to be shown; None where no group is withheld for its size."""
        return None

    def at(self, k: int) -> Self:
        """The same mechanism, and the same noise, for a list of `k` rows."""
        length: dict[str, Any] = {"k": k}
        return replace(self, **length)

    @abstractmethod
    def release(self, exact: Any, rng: Rng, /) -> Release[Any]:
        """Run it on exact counts: a mapping where the domain is public, ranked rows where it is not."""

    def fingerprint(self) -> bytes:
        """The mechanism and everything its noise depends on, as bytes: whatever k is, one noise, one fingerprint."""
        parameters: dict[str, ContextField] = {name: getattr(self, name) for name in self.noise_parameters}
        return context(mechanism=self.name, version=1, epsilon=self.epsilon, tau=self.tau, **parameters)


@dataclass(frozen=True, kw_only=True)
class Ranking(Mechanism):
    """Peeled selections, each with a freshly noised count or without."""

    k: int
    with_counts: bool = True
    count_noise: CountNoise = "laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.__dict__["k"] = whole("k", self.k, at_least=1, at_most=MAX_ROWS)
        if not isinstance(self.with_counts, bool):
            raise InvalidArgument("with_counts", "must be True or False")
        if self.count_noise not in get_args(CountNoise):
            raise InvalidArgument("count_noise", "must be 'laplace' or 'gaussian'")

    @cached_property
    def noise(self) -> Noise:
        """The law of the noise on a count, one unit whichever it is."""
        scale = 2 * self.tau / self.epsilon
        return DiscreteLaplace(scale) if self.count_noise == "laplace" else DiscreteGaussian(scale**2)

    @property
    def error95(self) -> int | None:
        return self.noise.half_width() if self.with_counts else None

    @cached_property
    def worst(self) -> tuple[Step, ...]:
        return self.steps(self.k, stopped=False)

    def steps(self, rows: int, *, stopped: bool) -> tuple[Step, ...]:
        law = f"{self.noise.family} {self.noise.parameter}" if self.with_counts else None
        steps: list[Step] = []
        for place in range(1, rows + 1):
            steps.append(_pick(place))
            if law is not None:
                steps.append(_count(place, law))
        return tuple(steps)

    def _rows(self, keys: Sequence[K], exact: Sequence[int], source: Rng) -> tuple[tuple[K, int | None], ...]:
        """The picked items, with fresh noise on their counts, dealt out by place."""
        if not self.with_counts:
            return tuple([(key, None) for key in keys])
        stream = source.stream(purpose="count", family=self.noise.family, parameter=self.noise.parameter)
        noise = self.noise.sample(stream, len(keys)).tolist()
        return tuple([(key, count + z) for key, count, z in zip(keys, exact, noise, strict=True)])
