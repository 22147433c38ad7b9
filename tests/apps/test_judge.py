"""What counts as a right answer: python3 -m unittest discover tests/apps."""

import copy
import dataclasses
import unittest

from hang import Hang
from judge import judge

CLIENT, SERVER, HOLDER = ({"pid": n, "tid": n, "name": ""} for n in (10, 20, 30))
TRUTH = {
    "victim": CLIENT,
    "from_ns": 1000,
    "to_ns": 2000,
    "culprits": [{"pid": 30, "tid": None, "name": ""}],
    "others": [SERVER],
    "quota": None,
    "disk": False,
}
LOCK = Hang("row-lock", "database", None, True, ("^lock_row$",), (), 0.4, False)


def thread(who):
    return {"pid": who["pid"], "tid": who["tid"], "process": "p", "thread": "t"}


def stall(victim=CLIENT, culprit=HOLDER, **cause):
    """A right answer, unless told otherwise."""
    reason = {"pattern": "long_hold", "function": "lock_row", "evidence": "direct"}
    return {
        "id": 1,
        "start_ns": 1000,
        "end_ns": 2000,
        "duration_ns": 1000,
        "victim": thread(victim),
        "other_victims": [],
        "text": "It waited.\n  wait chain\n for a lock",
        "cause": {"culprit": culprit and thread(culprit), "throttling": None} | reason | cause,
        "chain": [],
    }


def answer(*stalls):
    numbered = [each | {"id": number} for number, each in enumerate(stalls, 1)]
    return {"stalls": copy.deepcopy(numbered)}


class Judge(unittest.TestCase):
    def test_right_answers(self):
        verdict = judge(TRUTH, LOCK, answer(stall()), answer(stall()))
        self.assertTrue(verdict.unasked and verdict.asked and verdict.function and verdict.lock)
        self.assertEqual((verdict.rank, verdict.other_stalls), (1, 0))
        self.assertFalse(verdict.confidently_wrong)

    def test_who_waits_on_behalf_of_the_victim_is_a_victim(self):
        verdict = judge(TRUTH, LOCK, answer(stall(victim=SERVER)), answer())
        self.assertTrue(verdict.unasked)

    def test_the_culprits_side_alone_is_not_enough(self):
        verdict = judge(TRUTH, LOCK, answer(stall(victim=HOLDER)), answer())
        self.assertFalse(verdict.unasked)
        self.assertEqual((verdict.rank, verdict.culprits_rank), (0, 1))

    def test_only_the_first_three_count(self):
        other = stall(victim=HOLDER, culprit=None)
        verdict = judge(TRUTH, LOCK, answer(other, other, other, stall()), answer())
        self.assertEqual((verdict.unasked, verdict.rank, verdict.other_stalls), (False, 4, 3))

    def test_another_time_is_another_hang(self):
        early = stall() | {"start_ns": 0, "end_ns": 1400}
        self.assertFalse(judge(TRUTH, LOCK, answer(early), answer()).unasked)

    def test_pieces_of_a_hang_are_one(self):
        begin = stall() | {"start_ns": 1000, "end_ns": 1300}
        end = stall() | {"start_ns": 1600, "end_ns": 2000}
        self.assertFalse(judge(TRUTH, LOCK, answer(begin), answer()).unasked)
        verdict = judge(TRUTH, LOCK, answer(begin, end), answer())
        self.assertEqual((verdict.unasked, verdict.rank), (True, 1))
        other = stall(victim=HOLDER, culprit=None)
        verdict = judge(TRUTH, LOCK, answer(begin, other, other, end), answer())
        self.assertEqual((verdict.unasked, verdict.rank), (False, 1))

    def test_one_of_several_hangs_is_enough(self):
        again = TRUTH | {"again": [[5000, 5900], [7000, 7800]]}
        later = stall() | {"start_ns": 5000, "end_ns": 5900}
        verdict = judge(again, LOCK, answer(later, stall()), answer(stall()))
        self.assertEqual((verdict.unasked, verdict.rank, verdict.other_stalls), (True, 1, 0))
        self.assertFalse(judge(TRUTH, LOCK, answer(later), answer()).unasked)
        wrong = later | {"cause": stall(culprit=SERVER)["cause"]}
        verdict = judge(again, LOCK, answer(stall(), wrong), answer(stall()))
        self.assertTrue(verdict.unasked and verdict.confidently_wrong)

    def test_a_wrong_culprit_is_confidently_wrong_only_if_direct(self):
        for evidence, wrong in (("direct", True), ("inferred", False)):
            told = answer(stall(culprit=SERVER, evidence=evidence))
            verdict = judge(TRUTH, LOCK, told, answer())
            self.assertEqual(verdict.confidently_wrong, wrong)
        unknown = answer(stall(culprit=None, pattern="unknown"))
        self.assertFalse(judge(TRUTH, LOCK, unknown, unknown).confidently_wrong)

    def test_every_stall_of_the_hang_may_be_confidently_wrong(self):
        fine, wrong = stall(), stall(victim=SERVER, culprit=SERVER)
        verdict = judge(TRUTH, LOCK, answer(fine, fine, fine, wrong), answer(fine))
        self.assertTrue(verdict.unasked and verdict.confidently_wrong)
        stranger = {"pid": 40, "tid": 40, "name": ""}
        elsewhere = stall(victim=stranger, culprit=stranger)
        earlier = wrong | {"start_ns": 0, "end_ns": 900}
        verdict = judge(TRUTH, LOCK, answer(fine, elsewhere, earlier), answer(fine))
        self.assertFalse(verdict.confidently_wrong, "what no truth knows is not judged")
        moment = wrong | {"start_ns": 1000, "end_ns": 1050}
        self.assertFalse(judge(TRUTH, LOCK, answer(fine, moment), answer(fine)).confidently_wrong)

    def test_a_process_without_a_cpu_is_a_hang_of_its_own_unless_it_is_told_as_this_one(self):
        for victim, wrong in ((HOLDER, False), (CLIENT, True)):
            starved = stall(victim=victim, culprit=None, pattern="cpu_starvation")
            verdict = judge(TRUTH, LOCK, answer(stall(), starved), answer(stall()))
            self.assertEqual(verdict.confidently_wrong, wrong)

    def test_an_address_is_no_name(self):
        lzma = dataclasses.replace(LOCK, functions=("lzma",))
        for named, right in (("liblzma.so.5+0x1f", False), ("lzma_code → liblzma.so.5+0x1f", True)):
            verdict = judge(TRUTH, lzma, answer(), answer(stall(function=named)))
            self.assertEqual(verdict.function, right)

    def test_a_lock_is_called_one_by_pattern_class_or_words(self):
        def locked(**fields):
            told = stall(pattern="timer_sleep") | fields
            return judge(TRUTH, LOCK, answer(), answer(told)).lock

        wait = {"class": "lock", "waited_ns": 900}
        self.assertFalse(locked(), "the tables below the sentences do not count")
        self.assertTrue(locked(chain=[wait]))
        self.assertFalse(locked(chain=[wait | {"waited_ns": 100}]))
        self.assertTrue(locked(text="It waited for the row lock."))
        self.assertFalse(locked(text="It waited in LockAcquire → flock."))

    def test_quota_and_disk_are_causes_without_a_thread(self):
        throttling = {"group": "/small"}
        quota = TRUTH | {"culprits": [], "quota": "/small"}
        told = answer(stall(culprit=None, pattern="cpu_starvation", throttling=throttling))
        self.assertTrue(judge(quota, LOCK, told, told).asked)
        self.assertFalse(judge(quota, LOCK, told, answer(stall())).asked)
        disk = TRUTH | {"culprits": [], "disk": True}
        told = answer(stall(culprit=None, pattern="io_wait"))
        self.assertTrue(judge(disk, LOCK, told, told).asked)

    def test_no_answer_is_wrong(self):
        verdict = judge(TRUTH, LOCK, answer(), answer())
        self.assertEqual((verdict.asked, verdict.function, verdict.lock), (False, False, False))


if __name__ == "__main__":
    unittest.main()
