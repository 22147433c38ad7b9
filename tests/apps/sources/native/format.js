// A service that formats programs. The formatter is asynchronous and works in a thread of its own, but
// the service needs the result at once, so its event loop waits for that thread (Atomics.wait).
"use strict";
const fs = require("node:fs");
const http = require("node:http");
const { Worker, isMainThread, parentPort, workerData } = require("node:worker_threads");

function formatSource(slow) {
  for (const end = performance.now() + (slow ? 1200 : 1); performance.now() < end; );
}

function serve() {
  const done = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(__filename, { workerData: done });

  function formatSync(slow) {
    Atomics.store(done, 0, 0);
    worker.postMessage(slow);
    Atomics.wait(done, 0, 0);
  }

  const server = http.createServer((request, response) => {
    formatSync(request.url === "/slow");
    response.end("formatted");
  });
  // Idle connections stay open.
  server.keepAliveTimeout = 0;
  worker.once("message", (thread) => {
    server.listen(Number(process.argv[2]), "127.0.0.1", () => {
      console.log(JSON.stringify({ worker: Number(thread.split("/").pop()) }));
    });
  });
}

function work() {
  parentPort.on("message", (slow) => {
    formatSource(slow);
    Atomics.store(workerData, 0, 1);
    Atomics.notify(workerData, 0);
  });
  parentPort.postMessage(fs.readlinkSync("/proc/thread-self"));
}

if (isMainThread) {
  serve();
} else {
  work();
}
