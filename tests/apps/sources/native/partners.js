// A server that connects to a database on this machine for each page, and so looks its name up; another
// page checks whether all partners can be found.
const http = require("node:http"), dns = require("node:dns");

function checkPartners(done) {
  const partners = ["one", "two", "three", "four"].map((name) => `${name}.example`);
  let left = partners.length;
  for (const partner of partners) {
    dns.lookup(partner, { family: 4 }, () => --left || done());
  }
}

http.createServer((request, response) => {
  if (request.url === "/check") {
    checkPartners(() => response.end("checked"));
  } else {
    dns.lookup("localhost", { family: 4 }, (error, address) => response.end(address));
  }
}).listen(Number(process.argv[2]), "127.0.0.1");
