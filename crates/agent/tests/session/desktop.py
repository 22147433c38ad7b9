"""What a desktop offers on the message bus: notifications and the portal for hot keys.

Prints each call as a line of JSON, with the time (CLOCK_MONOTONIC). Commands on standard input:
`press NUMBER KEY` presses a button of a notification, `activate` the shortcut that was bound. After
`refuse`, no shortcut is bound; after `hang`, no notification is answered.
"""
import json
import sys
import time

from gi.repository import Gio, GLib

XML = """<node>
<interface name="org.freedesktop.Notifications">
 <method name="Notify"><arg type="s" direction="in"/><arg type="u" direction="in"/>
  <arg type="s" direction="in"/><arg type="s" direction="in"/><arg type="s" direction="in"/>
  <arg type="as" direction="in"/><arg type="a{sv}" direction="in"/><arg type="i" direction="in"/>
  <arg type="u" direction="out"/></method>
</interface>
<interface name="org.freedesktop.portal.GlobalShortcuts">
 <method name="CreateSession"><arg type="a{sv}" direction="in"/><arg type="o" direction="out"/></method>
 <method name="BindShortcuts"><arg type="o" direction="in"/><arg type="a(sa{sv})" direction="in"/>
  <arg type="s" direction="in"/><arg type="a{sv}" direction="in"/>
  <arg type="o" direction="out"/></method>
</interface>
</node>"""
NOTIFICATIONS = "org.freedesktop.Notifications"
SHORTCUTS = "org.freedesktop.portal.GlobalShortcuts"
PORTAL = "/org/freedesktop/portal/desktop"
SESSION = PORTAL + "/session/1/unhitch"
numbers = 0
refuses = False
hangs = False


def say(**what):
    print(json.dumps({"time_ns": time.monotonic_ns(), **what}), flush=True)


def respond(connection, request, results):
    connection.emit_signal(
        None, request, "org.freedesktop.portal.Request", "Response",
        GLib.Variant("(ua{sv})", (1 if refuses else 0, results)))
    return False


def called(connection, _sender, _path, _interface, method, parameters, invocation):
    global numbers
    if method == "Notify":
        _, replaces, _, summary, body, actions, _, _ = parameters.unpack()
        if replaces == 0:
            numbers += 1
        number = replaces or numbers
        say(number=number, summary=summary, body=body, actions=actions)
        if not hangs:
            invocation.return_value(GLib.Variant("(u)", (number,)))
        return
    request = PORTAL + "/request/1/" + method
    if method == "CreateSession":
        results = {"session_handle": GLib.Variant("s", SESSION)}
    else:
        _, shortcuts, _, _ = parameters.unpack()
        say(bound=[[name, options["preferred_trigger"]] for name, options in shortcuts])
        about = {"trigger_description": GLib.Variant("s", "Press Ctrl+Super+R")}
        results = {"shortcuts": GLib.Variant("a(sa{sv})", [("save", about)])}
    invocation.return_value(GLib.Variant("(o)", (request,)))
    GLib.idle_add(respond, connection, request, results)


def command(_channel, condition):
    global refuses, hangs
    line = sys.stdin.readline()
    if not line:
        loop.quit()
        return False
    words = line.split()
    if words[0] == "press":
        bus.emit_signal(
            None, "/org/freedesktop/Notifications", NOTIFICATIONS, "ActionInvoked",
            GLib.Variant("(us)", (int(words[1]), words[2])))
    elif words[0] == "refuse":
        refuses = True
    elif words[0] == "hang":
        hangs = True
    else:
        bus.emit_signal(
            None, PORTAL, SHORTCUTS, "Activated",
            GLib.Variant("(osta{sv})", (SESSION, "save", 1, {})))
    return True


node = Gio.DBusNodeInfo.new_for_xml(XML)
bus = Gio.bus_get_sync(Gio.BusType.SESSION)
bus.register_object("/org/freedesktop/Notifications", node.interfaces[0], called, None, None)
bus.register_object(PORTAL, node.interfaces[1], called, None, None)
loop = GLib.MainLoop()
owned = []


def own(_bus, name):
    owned.append(name)
    if len(owned) == 2:
        say(ready=True)


for name in (NOTIFICATIONS, "org.freedesktop.portal.Desktop"):
    Gio.bus_own_name_on_connection(bus, name, Gio.BusNameOwnerFlags.NONE, own, None)
GLib.io_add_watch(sys.stdin, GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, command)
loop.run()
