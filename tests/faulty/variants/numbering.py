"""Wrong about buckets and tactics: BUCK, TACT."""

from unittest import mock

from nvfp4_reference import native_document

from faulty.variant import Faulty

MANY_INTEGERS = range(-1000, 1001)


class PowersOfTwoOnly(Faulty):
    """Rounds every M up to a power of two."""

    breaks = ("BUCK-1",)
    controls = ("BUCK-2",)

    def bucket(self, m):
        return 1 << max(m - 1, 0).bit_length()


class NegativesAreBuckets(Faulty):
    """Gives a negative M, which a caller computed wrongly, a bucket of its own."""

    breaks = ("BUCK-1",)
    controls = ("BUCK-2",)

    def bucket(self, m):
        return m if m < 0 else super().bucket(m)


class CapsBuckets(Faulty):
    """Serves every M beyond a million by the plan for a million."""

    breaks = ("BUCK-1",)
    controls = ("BUCK-3",)

    def bucket(self, m):
        return super().bucket(min(m, 2**20))


class CapsProfiles(Faulty):
    """Tunes no more than 16,384 rows, whatever the maximum is."""

    breaks = ("BUCK-2",)
    controls = ("BUCK-1",)

    def profiles(self, maximum):
        return [m for m in super().profiles(maximum) if m <= 2**14 or m == maximum]


class MaximumLeftOut(Faulty):
    """Tunes the buckets below the maximum and not the maximum itself."""

    breaks = ("BUCK-2", "BUCK-3")
    controls = ("BUCK-1",)
    served = True

    def profiles(self, maximum):
        return super().profiles(maximum)[:-1] or [1]


class LookupRoundsDown(Faulty):
    """Profiles by buckets, and looks up by the next multiple of 128."""

    breaks = ("BUCK-1", "BUCK-3")
    controls = ("BUCK-2",)

    def bucket(self, m):
        return super().bucket(m) if m <= 256 else -(-m // 128) * 128


class Renumbers(Faulty):
    """Lists the ordinary variants before those with swapped operands."""

    breaks = ("TACT-1",)
    controls = ("TACT-2",)

    def describe(self):
        about = super().describe()
        about["tactics"] = [about["tactics"][index ^ 1] | {"id": index} for index in range(32)]
        return about


class DigestWithoutClusters(Faulty):
    """Leaves the cluster out of the digest, since it never changed so far."""

    breaks = ("TACT-1",)
    controls = ("TACT-2",)

    def tactic_digest(self, tactics):
        return super().tactic_digest([tactic | {"cluster": [1, 1, 1]} for tactic in tactics])


class TakesAnyTactic(Faulty):
    """Installs whatever tactic id a native document has."""

    breaks = ("TACT-2", "NDOC-10")
    controls = ("TACT-1", "NDOC-3")
    changes = ((native_document, "TACTIC_IDS", MANY_INTEGERS),)


class PublishesAnyTactic(Faulty):
    """Checks tactic ids where it reads, and not where it merges and writes."""

    breaks = ("TACT-2",)
    controls = ("TACT-1",)

    def merge(self, prior, current):
        with mock.patch.object(native_document, "TACTIC_IDS", MANY_INTEGERS):
            return super().merge(prior, current)

    def write_native(self, path, document):
        with mock.patch.object(native_document, "TACTIC_IDS", MANY_INTEGERS):
            return super().write_native(path, document)
