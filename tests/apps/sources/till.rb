# A till with a thread for each connection, all of which share a mutex; a report keeps it and sleeps.
# A page is the id of the thread that made it.
require "socket"

TILL = Mutex.new

def write_report
  sleep 1.2
end

def book_sale
  Thread.current.native_thread_id
end

server = TCPServer.new("127.0.0.1", ARGV[0].to_i)
loop do
  Thread.new(server.accept) do |client|
    client.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    while (request = client.gets)
      while (line = client.gets) && line != "\r\n"
      end
      page = TILL.synchronize do
        write_report if request.include?("/report")
        book_sale.to_s
      end
      client.write("HTTP/1.1 200 OK\r\nContent-Length: #{page.length}\r\n\r\n#{page}")
    end
  end
end
