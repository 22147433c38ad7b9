# A web server with a thread for each connection; one page keeps the interpreter to itself.
require "socket"

WORDS = Array.new(1_500_000) { |n| (n * 7919 % 1_500_007).to_s }

def index_words
  WORDS.sort.length
end

server = TCPServer.new("127.0.0.1", ARGV[0].to_i)
loop do
  Thread.new(server.accept) do |client|
    client.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    while (request = client.gets)
      while (line = client.gets) && line != "\r\n"
      end
      page = request.include?("/sort") ? index_words.to_s : "fast"
      client.write("HTTP/1.1 200 OK\r\nContent-Length: #{page.length}\r\n\r\n#{page}")
    end
  end
end
