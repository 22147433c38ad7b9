"""A script that has done its work, and does not end: a thread of it, which is no daemon, still computes."""

import sys
import threading


def count_words():
    value = 7
    for n in range(int(sys.argv[1])):
        value = (value * 31 + n) % 1000003


def write_summary():
    with open("summary", "w") as file:
        file.write("done\n")


counting = threading.Thread(target=count_words, name="counting")
counting.start()
write_summary()
