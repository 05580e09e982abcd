"""The hybrid M buckets: which plan serves a request of M rows.

Plans are tuned for a few values of M. `bucket` rounds a request's M up to the M that serves it;
`profiles` lists the values of M that a warm-up measures. The two must agree, or a tuned plan is
never found, which FlashInfer users saw as NaN at M = 2001; see `profile_buckets`.

Source: FlashInfer fused_moe/utils.py, hybrid bucket functions.
"""

HYBRID_BUCKET_VERSION = 1

_POWERS = tuple(1 << exponent for exponent in range(9))  # 1 .. 256
_STEPS_OF_256 = tuple(range(512, 2048 + 1, 256))
_STEPS_OF_512 = tuple(range(2560, 4096 + 1, 512))
_LARGE_POWERS = tuple(1 << exponent for exponent in range(13, 31))  # 8192 .. 2**30

_BOUNDARIES = _POWERS + _STEPS_OF_256 + _STEPS_OF_512 + _LARGE_POWERS

HYBRID_BUCKETS = frozenset(_BOUNDARIES)
"""Every bucket that a document can hold; M is a signed 32-bit integer in a document."""


def bucket(m: int) -> int:
    """The bucket that serves `m` rows: the smallest one that is at least `m`."""
    if m <= 0:
        return 1
    if m <= 256:
        return 1 << (m - 1).bit_length()
    if m <= 2048:
        return -(-m // 256) * 256
    if m <= 4096:
        return -(-m // 512) * 512
    return 1 << (m - 1).bit_length()


def bucket_table(largest: int) -> tuple[int, ...]:
    """`bucket(m)` for each m from 0 to `largest`, which must be a bucket."""
    found = [1]
    for boundary in profiles(largest):
        found += [boundary] * (boundary + 1 - len(found))
    return tuple(found)


def profiles(maximum: int) -> list[int]:
    """The values of M that a warm-up up to `maximum` rows measures, ascending.

    The last one is `maximum` itself. `ValueError` for a maximum below 1.
    """
    if maximum < 1:
        raise ValueError(f"the maximum M is {maximum}; give the largest batch, at least 1.")
    below = [boundary for boundary in _BOUNDARIES if boundary < maximum]
    boundary = 2 * _BOUNDARIES[-1]
    while boundary < maximum:
        below.append(boundary)
        boundary *= 2
    return [*below, maximum]


def profile_buckets(maximum: int) -> list[int]:
    """The buckets under which the plans of `profiles(maximum)` are kept, ascending.

    A maximum between two buckets is measured at that M, since the caller's buffers are not larger.
    Its plan is kept under the bucket that a lookup uses: 3000 under 3072.
    """
    return [bucket(profile) for profile in profiles(maximum)]
