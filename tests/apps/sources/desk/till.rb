# A program that calls an object of another process (DRb) every 20 ms, and measures itself.
require "drb"

stock = DRbObject.new_with_uri(ARGV[0])
$stdout.sync = true
stock.count_article
puts %({"victim": #{Process.pid}})
loop do
  from = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  stock.count_article
  to = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  puts %({"from": #{from}, "to": #{to}}) if to - from >= 100_000_000
  sleep 0.02
end
