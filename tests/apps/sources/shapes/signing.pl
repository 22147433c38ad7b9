# Signs what passes through a pipe, with a key that only one program may use at a time.
use strict;
use warnings;
use Digest::SHA;
use Fcntl ':flock';

binmode STDIN;
binmode STDOUT;
open my $key, '>>', $ARGV[0] or die "$ARGV[0]: $!";
flock $key, LOCK_EX or die "flock: $!";
my $digest = Digest::SHA->new(256);
while (read STDIN, my $block, 65536) {
    $digest->add($block);
    print $block;
}
close $key;
print $digest->hexdigest, "\n";
