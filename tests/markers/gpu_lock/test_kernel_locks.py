"""Reading what Linux says: real processes where they can be had, a made-up machine elsewhere."""

import os
import subprocess

from pytest_nvfp4.markers.gpu_lock import adoption
from pytest_nvfp4.markers.gpu_lock.holders import (
    describe_holders,
    describe_process,
    duration,
    user_name,
)
from pytest_nvfp4.markers.gpu_lock.kernel_locks import (
    KernelLock,
    chain,
    identity_of,
    locks_of,
    locks_on,
    parse_locks,
    process,
)
from pytest_nvfp4.markers.gpu_lock.lock_file import LockFile

LOCKS = """\
1: FLOCK  ADVISORY  WRITE 70 fe:00:12 0 EOF
1: -> FLOCK  ADVISORY  WRITE 71 fe:00:12 0 EOF
2: POSIX  ADVISORY  WRITE 72 fe:00:12 0 EOF
3: FLOCK  ADVISORY  READ 73 00:15:12 0 EOF
4: OFDLCK ADVISORY  READ -1 fe:00:12 0 EOF
5: LEASE  ACTIVE    WRITE 75 fe:00:12 0 EOF
"""


class Machine:
    """A folder that looks like `/proc`."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "uptime").write_text("1000.00 0.00\n")

    def locks(self, text):
        (self.folder / "locks").write_text(text)

    def start(self, pid, parent, *, locks="", command=b"python\0-m\0pytest\0", started=100):
        own = self.folder / str(pid)
        (own / "fdinfo").mkdir(parents=True)
        middle = "0 " * 17
        (own / "stat").write_text(f"{pid} (odd) S 1 (name) S {parent} {middle}{started} 0 0\n")
        (own / "cmdline").write_bytes(command)
        (own / "comm").write_text("python\n")
        (own / "fdinfo" / "3").write_text(f"pos:\t0\n{locks}")

    def hide_descriptors(self, pid):
        (self.folder / str(pid) / "fdinfo" / "3").unlink()
        (self.folder / str(pid) / "fdinfo").rmdir()


def line(pid, identity="fe:00:12", mode="WRITE"):
    return f"lock:\t1: FLOCK  ADVISORY  {mode} {pid} {identity} 0 EOF\n"


def test_only_granted_flocks_are_read():
    assert parse_locks(LOCKS) == [
        KernelLock("fe:00:12", True, 70),
        KernelLock("00:15:12", False, 73),
    ]


def test_own_lock_is_found_under_its_identity(path):
    mine = LockFile(path)
    assert locks_of(os.getpid(), mine.identity) == []
    assert mine.try_lock()
    expected = [KernelLock(mine.identity, True, os.getpid())]
    assert locks_of(os.getpid(), mine.identity) == expected
    assert locks_on(mine.identity) == expected
    assert mine.identity.endswith(f":{path.stat().st_ino}")
    mine.close()
    assert locks_on(f"00:00:{path.stat().st_ino}") == []


def test_identity_is_that_of_the_mount(tmp_path):
    (tmp_path / "self" / "fdinfo").mkdir(parents=True)
    with open(os.devnull) as file:
        number = file.fileno()
        info = tmp_path / "self" / "fdinfo" / str(number)
        info.write_text("pos:\t0\nflags:\t0\nmnt_id:\t27\nino:\t99\n")
        (tmp_path / "self" / "mountinfo").write_text(
            "7 1 8:1 / /a rw - ext4 a rw\n27 1 0:43 / / rw\n"
        )
        assert identity_of(number, tmp_path) == "00:2b:99"


def test_chain_ends_with_the_first_process():
    pids = [one.pid for one in chain(os.getpid())]
    assert pids[:2] == [os.getpid(), os.getppid()]
    assert len(set(pids)) == len(pids)


def test_ended_process_is_none():
    child = subprocess.Popen(["true"])
    child.wait()
    assert process(child.pid) is None
    assert describe_process(child.pid) == f"pid {child.pid} (ended)"


def test_holder_is_told_with_command_user_and_age(tmp_path):
    machine = Machine(tmp_path)
    ticks = os.sysconf("SC_CLK_TCK")
    machine.start(70, 1, locks=line(70), command=b"train\x1b\0--x\0", started=ticks * 400)
    machine.locks(LOCKS)
    told = describe_holders("fe:00:12", tmp_path)
    owner = user_name(os.getuid())
    assert told == f"pid 70 `train? --x` of {owner}, running for 10 min"


def test_holder_of_another_user_is_told_from_the_list_of_locks(tmp_path):
    machine = Machine(tmp_path)
    machine.start(70, 1)
    machine.hide_descriptors(70)
    machine.locks(LOCKS)
    assert describe_holders("fe:00:12", tmp_path).startswith("pid 70 `python -m pytest` of ")


def test_whoever_keeps_the_descriptor_is_told_when_the_locker_has_ended(tmp_path):
    machine = Machine(tmp_path)
    machine.start(80, 1, locks=line(70), command=b"")
    machine.start(81, 1)
    machine.locks(LOCKS)
    assert describe_holders("fe:00:12", tmp_path).startswith("pid 80 `python` of ")


def test_invisible_holder_is_said_to_be_that(tmp_path):
    Machine(tmp_path).locks(LOCKS.replace("70", "0"))
    told = describe_holders("fe:00:12", tmp_path)
    assert told == "a process that is not visible from here"


def test_long_command_is_cut(tmp_path):
    machine = Machine(tmp_path)
    machine.start(70, 1, command=b"x" * 5000)
    assert len(describe_process(70, tmp_path)) < 200


def test_durations():
    found = [duration(s) for s in (-1, 0.9, 119, 120, 7199, 7200, 172799, 172800)]
    assert found == ["0 s", "0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]


# --- Adoption


def adoptable(tmp_path):
    return adoption.find("fe:00:12", tmp_path, pid=90)


def test_nothing_above_us_holds(tmp_path):
    machine = Machine(tmp_path)
    machine.start(90, 80)
    machine.start(80, 1)
    machine.start(70, 1, locks=line(70))
    machine.locks(LOCKS)
    assert adoptable(tmp_path) is None


def test_inherited_descriptor(tmp_path):
    machine = Machine(tmp_path)
    machine.start(90, 70, locks=line(70))
    machine.start(70, 1, locks=line(70))
    machine.locks(LOCKS)
    found = adoptable(tmp_path)
    assert (found.bringer.pid, found.inherited, found.id) == (70, True, "70-70-100")


def test_ancestor_whose_descriptor_was_closed_in_between(tmp_path):
    machine = Machine(tmp_path)
    machine.start(90, 80)
    machine.start(80, 70)
    machine.start(70, 1, locks=line(70))
    machine.locks(LOCKS)
    found = adoptable(tmp_path)
    assert (found.bringer.pid, found.inherited) == (70, False)


def test_shell_that_locked_by_a_command_long_gone(tmp_path):
    machine = Machine(tmp_path)
    machine.start(90, 80)
    machine.start(80, 1, locks=line(70))
    machine.locks(LOCKS)
    assert adoptable(tmp_path).id == "70-80-100"


def test_ancestor_of_another_user_is_believed_to_the_list_of_locks(tmp_path):
    machine = Machine(tmp_path)
    machine.start(90, 70)
    machine.start(70, 1)
    machine.hide_descriptors(70)
    machine.locks(LOCKS)
    assert adoptable(tmp_path).bringer.pid == 70


def test_ancestor_named_in_the_list_that_has_no_such_descriptor_is_another_with_its_pid(tmp_path):
    machine = Machine(tmp_path)
    machine.start(90, 70)
    machine.start(70, 1)
    machine.locks(LOCKS)
    assert adoptable(tmp_path) is None


def test_lost_hold_is_noticed(tmp_path):
    machine = Machine(tmp_path)
    machine.start(90, 70)
    machine.start(70, 1, locks=line(70))
    found = adoptable(tmp_path)
    assert found.still_held(tmp_path)
    (tmp_path / "70" / "fdinfo" / "3").write_text("pos:\t0\n")
    assert not found.still_held(tmp_path)
