# Two threads with a shared variable. The first one reads it every 20 ms, and measures itself; when the file
# of the argument appears, the second one computes while it has the variable locked.
use strict;
use threads;
use threads::shared;
use Time::HiRes qw(clock_gettime usleep CLOCK_MONOTONIC);

my $flag = $ARGV[0];
my $score : shared = 0;
my $helper : shared = 0;
$| = 1;

sub count_scores {
    lock($score);
    my $end = clock_gettime(CLOCK_MONOTONIC) + 1.3;
    while (clock_gettime(CLOCK_MONOTONIC) < $end) { $score = ($score * 31 + $_) % 1000003 for 1 .. 1000 }
}

threads->create(sub {
    $helper = syscall(186);
    while (1) {
        count_scores() if unlink $flag;
        usleep(10_000);
    }
})->detach;
usleep(1000) until $helper;
print qq({"victim": $$, "counting": $helper}\n);
while (1) {
    my $from = clock_gettime(CLOCK_MONOTONIC);
    { lock($score); $score++; }
    my $to = clock_gettime(CLOCK_MONOTONIC);
    printf qq({"from": %.0f, "to": %.0f}\n), $from * 1e9, $to * 1e9 if $to - $from >= 0.1;
    usleep(20_000);
}
