"""The strict reference implementation of an NVFP4 GEMM plan cache, independent of the suite.

    options = resolve(os.environ)
    document = read_native(options.native_path, options.metadata)    # Rejected, or all of it
    tactic = tactics.resolve(document.plans[PlanKey(buckets.bucket(m), n, k)])
    imported = read_flashinfer(path, ImportMetadata.from_json(expected))
    update(options.native_path, Document(options.metadata, {PlanKey(2048, 5120, 6144): 4}))

    session = Session(options)
    session.warm_up(2048, [(5120, 6144), (14336, 5120)])
    session.complete()
    session.lookup(17, 5120, 6144)

To learn what the contracts mean, read the modules in this order:

1. `plans`, `buckets` and `tactics`: the terms.
2. `environment` and `options`: what must agree, and what a user can set.
3. `native_document`, `flashinfer_import` and `publication`: the files.
4. `plan_map`, `plan_cache`, `profiling`, `warm_up` and `session`: the running cache.
"""

from typing import TYPE_CHECKING

from .lazy import lazy_attributes

if TYPE_CHECKING:
    from . import buckets, tactics
    from .diagnostics import Statistics
    from .environment import ImportMetadata, NativeMetadata
    from .errors import Code, Rejected
    from .flashinfer_import import Import, read_flashinfer
    from .native_document import Document, merged, read_native
    from .options import Options, resolve
    from .plans import PlanKey, Plans
    from .publication import update
    from .session import Session

__all__ = [
    "Code",
    "Document",
    "Import",
    "ImportMetadata",
    "NativeMetadata",
    "Options",
    "PlanKey",
    "Plans",
    "Rejected",
    "Session",
    "Statistics",
    "buckets",
    "merged",
    "read_flashinfer",
    "read_native",
    "resolve",
    "tactics",
    "update",
]

if not TYPE_CHECKING:  # a type checker reads the imports above
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "buckets": (),
            "diagnostics": ("Statistics",),
            "environment": ("ImportMetadata", "NativeMetadata"),
            "errors": ("Code", "Rejected"),
            "flashinfer_import": ("Import", "read_flashinfer"),
            "native_document": ("Document", "merged", "read_native"),
            "options": ("Options", "resolve"),
            "plans": ("PlanKey", "Plans"),
            "publication": ("update",),
            "session": ("Session",),
            "tactics": (),
        },
    )
