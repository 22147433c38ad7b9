# A web server in one process, one page of which takes long.
use strict;
use warnings;
use IO::Socket::INET;
use Time::HiRes 'time';

$SIG{PIPE} = 'IGNORE';

sub write_report {
    my %sold;
    for (my $end = time + $ARGV[1]; time < $end;) { $sold{ $_ % 1000 } += $_ for 1 .. 1000 }
}

my $listener = IO::Socket::INET->new(
    LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], Listen => 100, ReuseAddr => 1
) or die "listen: $@";
while (my $browser = $listener->accept) {
    my $wanted = <$browser> // '';
    while (defined(my $line = <$browser>)) { last if $line =~ /^\r?$/ }
    write_report() if $wanted =~ m{ /report };
    print $browser "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\npage\n";
    close $browser;
}
