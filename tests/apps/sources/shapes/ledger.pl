# Adds an entry to a ledger once, when a line is on standard input; other programs write to it, too.
use strict;
use warnings;
use Fcntl qw(:flock SEEK_END);
use IO::Select;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC usleep);

$| = 1;

sub now { return int(clock_gettime(CLOCK_MONOTONIC) * 1e9) }

sub add_entry {
    my ($file) = @_;
    open my $ledger, '>>', $file or die "$file: $!";
    flock $ledger, LOCK_EX or die "flock: $!";
    seek $ledger, 0, SEEK_END;
    print $ledger "entry\n";
    close $ledger;
}

sub work_a_little {
    my %words;
    open my $users, '<', '/etc/passwd' or die "passwd: $!";
    while (<$users>) { $words{$_}++ for split /[:\/]/ }
    close $users;
    my $text = join ' ', sort keys %words for 1 .. rand 50;
    usleep rand 60_000;
}

print qq({"pid": $$, "tid": $$}\n);
my $told = IO::Select->new(\*STDIN);
work_a_little() until $told->can_read(0);
my $from = now();
print qq({"from": $from}\n);
add_entry($ARGV[0]);
my $to = now();
print qq({"from": $from, "to": $to}\n);
work_a_little() while 1;
