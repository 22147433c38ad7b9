"""A service that the message bus starts when somebody needs it, and that ends when it is told so.

    dictionary.py ADDRESS NAME FOLDER

If the file FOLDER/slow is there, it loads its words for a second before it has its name. If
FOLDER/leave is there, it answers once more, and ends. FOLDER/pid has its process.
"""

import os
import sys
import time

from jeepney import MessageType, message_bus, new_method_return
from jeepney.io.blocking import open_dbus_connection


def exists_no_longer(file):
    """Whether the file was there; it is removed."""
    try:
        os.unlink(file)
    except FileNotFoundError:
        return False
    return True


def load_words(folder):
    if exists_no_longer(f"{folder}/slow"):
        time.sleep(1.2)


def main():
    address, name, folder = sys.argv[1:]
    with open(f"{folder}/pid", "w") as file:
        file.write(str(os.getpid()))
    load_words(folder)
    connection = open_dbus_connection(address)
    # A call may come before the reply to this.
    connection.send(message_bus.RequestName(name))
    while True:
        message = connection.receive()
        if message.header.message_type == MessageType.method_call:
            leave = exists_no_longer(f"{folder}/leave")
            if leave:
                # The next call has the bus start this service again.
                connection.send(message_bus.ReleaseName(name))
            connection.send(new_method_return(message))
            if leave:
                return


main()
