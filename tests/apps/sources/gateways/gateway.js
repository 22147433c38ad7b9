// A gateway in front of a bank: it asks that for each balance over one connection, and serves others
// meanwhile.
const http = require("node:http");
const net = require("node:net");

const [port, bankPort] = process.argv.slice(2).map(Number);
const waiting = [];
const bank = net.connect(bankPort, "127.0.0.1", () => {
  bank.setNoDelay(true);
  http
    .createServer((request, response) => {
      if (request.url !== "/balance") return response.end("ok");
      waiting.push(response);
      bank.write("balance\n");
    })
    .listen(port, "127.0.0.1");
});
bank.on("data", (line) => waiting.shift().end(line));
