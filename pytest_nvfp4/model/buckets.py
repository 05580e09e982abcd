"""Hybrid M buckets: fine steps where kernels change quickly, powers of two elsewhere.

Source: the hybrid functions of FlashInfer fused_moe/utils.py.
"""

# (largest M of the phase, step); above the last phase buckets are powers of two again.
_PHASES = ((2048, 256), (4096, 512))


def hybrid_bucket(m: int) -> int:
    """Map a token count M to its bucket: the smallest boundary not below it, at least 1."""
    if m <= 256:
        return _power_of_two(m)
    for last, step in _PHASES:
        if m <= last:
            return -(-m // step) * step
    return _power_of_two(m)


def profile_list(maximum: int) -> list[int]:
    """List the token counts to tune for a maximum (≥ 1): every boundary below it, and itself."""
    profiles, boundary = [], 1
    while boundary < maximum:
        profiles.append(boundary)
        boundary = hybrid_bucket(boundary + 1)
    return [*profiles, maximum]


def _power_of_two(m: int) -> int:
    return 1 << max(m - 1, 0).bit_length()
