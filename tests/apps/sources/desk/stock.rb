# An object that other processes call (DRb), with a monitor. When the file of the second argument appears,
# a thread of it asks the warehouse with that monitor. Prints the thread's id.
require "drb"
require "monitor"

address, flag = ARGV

class Stock
  include MonitorMixin

  def count_article
    synchronize { @count = (@count || 0) + 1 }
  end

  def ask_warehouse
    synchronize { sleep 1.3 }
  end
end

stock = Stock.new
DRb.start_service(address, stock)
asking = Thread.new do
  loop do
    if File.exist?(flag)
      File.delete(flag)
      stock.ask_warehouse
    end
    sleep 0.01
  end
end
sleep 0.1
$stdout.puts %({"asking": #{asking.native_thread_id}})
$stdout.flush
sleep
