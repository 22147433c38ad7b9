// A server that compresses one page in its event loop, and another page of which awaits only what is
// there already, so that the loop never gets to ask for what has arrived.
"use strict";
const http = require("node:http");
const zlib = require("node:zlib");

let text = "";
for (let n = 0; text.length < 1 << 20; n++) text += `order ${n * n % 1000003} `;
const began = performance.now();
zlib.gzipSync(text, { level: 9 });
const times = Math.ceil(1200 / (performance.now() - began));
const everything = Buffer.from(text.repeat(times));

function exportOrders() {
  return zlib.gzipSync(everything, { level: 9 });
}

async function addOrder(sum, n) {
  return (sum * 31 + n) % 1000003;
}

async function sumOrders() {
  let sum = 0;
  for (const end = performance.now() + 1200; performance.now() < end; ) {
    for (let n = 0; n < 1000; n++) sum = await addOrder(sum, n);
  }
  return String(sum);
}

http.createServer(async (request, response) => {
  if (request.url === "/export") response.end(exportOrders());
  else if (request.url === "/sum") response.end(await sumOrders());
  else response.end("page");
}).listen(Number(process.argv[2]), "127.0.0.1");
