"""The independent model: it judges any document by the specification.

It is written from the format description alone and shares no code with any implementation, so that
model and implementation check each other. For bytes and an environment it finds *every* fault; an
implementation may stop at any of them, and is right where the model has found that fault too.
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
