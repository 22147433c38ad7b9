# Mixes sound for 130 ms of a CPU, and waits for the next piece, again and again.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_PROCESS_CPUTIME_ID usleep);

sub mix_sound {
    my $end = clock_gettime(CLOCK_PROCESS_CPUTIME_ID) + 0.13;
    my $sample = 1;
    while (clock_gettime(CLOCK_PROCESS_CPUTIME_ID) < $end) {
        $sample = ($sample * 31 + $_) % 1000003 for 1 .. 1000;
    }
}

while (1) {
    usleep 270_000;
    mix_sound();
}
