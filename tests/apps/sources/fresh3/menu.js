// A service that says what there is to eat. Its port is the argument; a debugger may connect to it (--inspect).
"use strict";
const http = require("node:http");

function showMenu(request, response) {
  response.end("soup");
}

const server = http.createServer(showMenu);
// Idle connections stay open.
server.keepAliveTimeout = 0;
server.listen(Number(process.argv[2]), "127.0.0.1");
