// A shop behind a proxy. Each eighth cart is a large one, and to price it takes 130 ms.
"use strict";
const http = require("node:http");

let carts = 0;

function priceCart(milliseconds) {
  let price = 0;
  for (const end = performance.now() + milliseconds; performance.now() < end; )
    for (let n = 0; n < 1000; n++) price = (price * 31 + n) % 1000003;
  return price;
}

http.createServer((request, response) => {
  const page = `${priceCart(++carts % 8 ? 0.5 : 130)}\n`;
  response.writeHead(200, { "content-length": page.length });
  response.end(page);
}).listen(Number(process.argv[2]), "127.0.0.1");
