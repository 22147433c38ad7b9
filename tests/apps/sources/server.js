// A web server that keeps its event loop, or its thread pool, from everybody.
"use strict";
const { execSync } = require("node:child_process");
const crypto = require("node:crypto");
const fs = require("node:fs");
const http = require("node:http");

const orders = JSON.stringify(
  Array.from({ length: 2500000 }, (_, id) => ({ id, name: "order " + id, price: id / 7 })),
);

function parseOrders() {
  return JSON.parse(orders).length;
}

function validateEmail(text) {
  return /^([a-z0-9]+)*@example\.com$/.test(text);
}

// An address that takes more than a second: each letter doubles the time.
function slowAddress() {
  for (let length = 20; ; length++) {
    const begin = performance.now();
    validateEmail("a".repeat(length) + "@example.co");
    if (performance.now() - begin > 300) {
      return "a".repeat(length + 1) + "@example.co";
    }
  }
}

const address = slowAddress();

function convertImage() {
  return execSync("head -c 200M /dev/zero | sha256sum").length;
}

function hashPasswords() {
  for (let user = 0; user < 4; user++) {
    crypto.pbkdf2("password" + user, "salt", 1000000, 64, "sha512", () => {});
  }
}

function readConfig(url) {
  return fs.readFileSync(url.split("?")[1], "utf8").length;
}

const pages = {
  "/fast": () => "fast",
  "/parse": () => String(parseOrders()),
  "/email": () => String(validateEmail(address)),
  "/child": () => String(convertImage()),
  "/hash": () => String(hashPasswords()),
  "/read": (url) => String(readConfig(url)),
};

const server = http
  .createServer((request, response) => {
    if (request.url === "/file") {
      fs.readFile(__filename, (_, content) => response.end(content));
    } else {
      response.end(pages[request.url.split("?")[0]](request.url));
    }
  })
  .listen(Number(process.argv[2]), "127.0.0.1");
// Idle connections stay open.
server.keepAliveTimeout = 0;
