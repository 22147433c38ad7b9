# A window that counts, every 20 ms. When the file of the first argument appears, as if somebody had
# pressed a button, it has a command compress the file of the second argument, and waits for that.
# Prints when the event loop was away for 100 ms or more, as `clock` tells it: not CLOCK_MONOTONIC, but
# the time of day.
lassign $argv flag picture
set beats 0
set last [clock microseconds]
pack [label .beats -textvariable beats]

proc export_picture {} {
    global picture
    exec xz -T1 -3 -k -f $picture
}

proc beat {} {
    global flag beats last
    set now [clock microseconds]
    if {$now - $last >= 100000} {
        puts "{\"from\": ${last}000, \"to\": ${now}000}"
        flush stdout
    }
    set last $now
    incr beats
    if {[file exists $flag]} {
        file delete $flag
        after idle export_picture
    }
    after 20 beat
}

after 500 {
    set last [clock microseconds]
    puts "{}"
    flush stdout
    beat
}
