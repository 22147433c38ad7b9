// A server that logs each visit to its standard output, with much detail.
const http = require("node:http");
const details = "x".repeat(4000);

function logVisit(request) {
  console.log(`${request.method} ${request.url} ${details}`);
}

http.createServer((request, response) => {
  logVisit(request);
  response.end("page");
}).listen(Number(process.argv[2]), "127.0.0.1");
