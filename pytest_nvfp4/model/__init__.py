"""The independent model: what the specification says about any document, decided without trust.

It is written from the format description alone and shares no code with any implementation, so the
two check each other. Given bytes and an environment it finds *everything* that is wrong; an
implementation may stop at the first thing it meets, and is right when the model found that too.
"""

from pytest_nvfp4.model.buckets import hybrid_bucket, profile_list
from pytest_nvfp4.model.flashinfer import judge_flashinfer, judge_kept_flashinfer
from pytest_nvfp4.model.native import judge_native
from pytest_nvfp4.model.verdict import Finding, Judgement

__all__ = [
    "Finding",
    "Judgement",
    "hybrid_bucket",
    "judge_flashinfer",
    "judge_kept_flashinfer",
    "judge_native",
    "profile_list",
]
