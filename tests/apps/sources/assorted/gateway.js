// A gateway that has one connection to the service behind it (maxSockets of an agent).
"use strict";
const http = require("node:http");
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function passOn(request, response) {
  const behind = { host: "127.0.0.1", port: Number(process.argv[3]), path: request.url, agent };
  http.get(behind, (answer) => {
    response.writeHead(answer.statusCode, { "content-length": answer.headers["content-length"] });
    answer.pipe(response);
  });
}

http.createServer(passOn).listen(Number(process.argv[2]), "127.0.0.1");
