# A shop whose labels a thread prints, over a queue of one place (SizedQueue). One label takes long.
# A page is the id of that thread.
require "socket"

LABELS = SizedQueue.new(1)

def print_label(label)
  sleep 1.3 if label == :big
end

PRINTER = Thread.new do
  loop { print_label(LABELS.pop) }
end

def order_label(label)
  LABELS.push(label)
end

server = TCPServer.new("127.0.0.1", ARGV[0].to_i)
loop do
  Thread.new(server.accept) do |client|
    client.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    while (request = client.gets)
      while (line = client.gets) && line != "\r\n"
      end
      order_label(request.include?("/big") ? :big : :small)
      page = PRINTER.native_thread_id.to_s
      client.write("HTTP/1.1 200 OK\r\nContent-Length: #{page.length}\r\n\r\n#{page}")
    end
  end
end
