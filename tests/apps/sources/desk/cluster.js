// Two processes that share a port (cluster). Who connects is served by one of them, then by the other. A
// page is fast; the report is not, and says which process has made it.
const cluster = require("node:cluster");
const http = require("node:http");

function sumReport(seconds) {
  let sum = 0;
  for (const end = Date.now() + 1000 * seconds; Date.now() < end; )
    for (let n = 0; n < 10000; n++) sum = (sum * 31 + n) % 1000003;
  return sum;
}

if (cluster.isPrimary) {
  cluster.fork();
  cluster.fork();
} else {
  http.createServer((request, response) => {
    if (request.url === "/report") sumReport(1.4);
    response.setHeader("Connection", "close");
    response.end(String(process.pid));
  }).listen(Number(process.argv[2]), "127.0.0.1");
}
