// A gateway: for each request it sends a line over a Unix socket, and hands on the line that comes
// back.
"use strict";
const http = require("node:http"), net = require("node:net"), readline = require("node:readline");

const behind = net.connect(process.argv[3]), waiting = [];
readline.createInterface({ input: behind }).on("line", (line) => {
  const response = waiting.shift();
  response.writeHead(200, { "content-length": line.length });
  response.end(line);
});

http.createServer((request, response) => {
  waiting.push(response);
  behind.write(`${request.url}\n`);
}).listen(Number(process.argv[2]), "127.0.0.1");
