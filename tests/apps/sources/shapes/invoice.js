// Sends one invoice, when a line is on standard input, and waits for its number. It has other work
// before and after. process.hrtime is CLOCK_MONOTONIC.
"use strict";
const fs = require("node:fs");

const rest = (most) => new Promise((resolve) => setTimeout(resolve, Math.random() * most));
const now = () => process.hrtime.bigint();

async function workALittle() {
  const text = await fs.promises.readFile("/etc/passwd", "utf8");
  JSON.stringify(text.split("\n").map((line) => line.split(":")));
  await rest(60);
}

async function main() {
  let told = false;
  process.stdin.once("data", () => { told = true; });
  console.log(JSON.stringify({ pid: process.pid, tid: process.pid }));
  while (!told) await workALittle();
  const from = now();
  console.log(`{"from": ${from}}`);
  const answer = await fetch(process.argv[2], { method: "POST", body: "invoice" });
  await answer.text();
  console.log(`{"from": ${from}, "to": ${now()}}`);
  for (;;) await workALittle();
}

main();
