# A server in one process. One question has it sort all orders.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(time);

my @orders = map { { total => $_ * $_ % 10007, name => "order " . ($_ * 31 % 9973) } } 1 .. 20000;

sub sort_orders {
    my ($end, @sorted) = (time() + 1.2);
    while (time() < $end) {
        @sorted = sort { $a->{total} <=> $b->{total} || $a->{name} cmp $b->{name} } @orders;
    }
    return scalar @sorted;
}

my $listener = IO::Socket::INET->new(
    LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 10, ReuseAddr => 1
) or die "listen: $!";
my $select = IO::Select->new($listener);
while (my @ready = $select->can_read) {
    for my $client (@ready) {
        if ($client == $listener) {
            $select->add($listener->accept);
        } elsif (!sysread($client, my $line, 1000)) {
            $select->remove($client);
            close $client;
        } else {
            my $answer = $line =~ /report/ ? sort_orders() : 7;
            syswrite($client, "$answer\n");
        }
    }
}
