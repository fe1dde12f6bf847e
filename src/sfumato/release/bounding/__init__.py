"""Bound what one person adds: at most L keys each, chosen by a keyed order, then count or collect what is kept.

The rows come as words of codes, by disjoint sets of people (`sfumato.engines.contributions`).

Guarantee: for every secret and label, person p keeps exactly min(L, n) of p's n keys, and which ones is a function of
the secret, the label, p's value and the values of p's own keys. So one more person (or one less) does not change what
other people keep: at most L counts move, each by one, all in the same direction. No assumption on the hash is needed.
The same pairs are kept for `count_people` and for `fold_pairs`; what `fold_pairs` sees of a pair is a function of that
pair's own rows. `keys_per_person` counts a person at one place, by that person's own keys, and what `sum_weights` adds
for a person follows from that person's own keys too.

Argument. Behind every value stand 64 bits, a fixed function of the value. p's keys are ordered by (h, bits, value),
where h is ORDER_BITS of a hash of two numbers that follow from the secret and the label, of the bits of p and of those
of the key: a total order on p's keys, which other people's rows do not enter. Codes do depend on the whole table, and
are used where that cannot be seen:

- A key's code breaks ties in h, and codes ascend by (bits, value). Another person's keys shift the codes of p's keys,
  and leave their order. Where the keys are public, codes do not depend on any row.
- A person's code only tells people apart. Codes are exact, not hashes, so two people are never merged; h comes from the
  bits of the person's value, not from the code. Hence neither the coding, nor the set in which a person is processed,
  nor the order or the number of equal rows, nor the number of threads can be seen in the choice.
- h always has the same number of bits. Were it as wide as the codes leave room for, a new person could change
  the ties of all people. Only the number of sets adapts to the data.

Two values with the same bits share their h, and remain two people, or two keys: a collision costs no privacy, only
independence.

Utility, not privacy, wants the order to look random: every key of p is kept with probability L/n, independently of
other people. The hash is xxHash64, which is not cryptographic; among n keys ties shift a key's chance by a factor of at
most about 1 + n / 2^ORDER_BITS. The two numbers may be seen, in the query plans of an engine that computes the order
itself: they are 128 bits of an HMAC, from which the secret cannot be computed.

The order is part of the name of a release (its `algorithm`): never change it. Every part of it can be computed in SQL
(h by the function `xxhash64` of Spark), and another engine keeps the same pairs.
"""

from sfumato.release.bounding.counting import MAX_KEYS, count_people, fold_pairs, keys_per_person, sum_weights
from sfumato.release.bounding.order import ORDER_BITS, KeyOrder, first_keys
from sfumato.release.bounding.pairs import Pairs
from sfumato.release.bounding.pulled import PulledContributions, as_port

__all__ = [
    "MAX_KEYS",
    "ORDER_BITS",
    "KeyOrder",
    "Pairs",
    "PulledContributions",
    "as_port",
    "count_people",
    "first_keys",
    "fold_pairs",
    "keys_per_person",
    "sum_weights",
]
