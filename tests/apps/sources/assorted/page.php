<?php
// A page of PHP's own web server, which has one process.
function make_report() {
    $text = str_repeat("x", 100000);
    for ($end = microtime(true) + 1.2; microtime(true) < $end;) {
        $text = hash("sha256", $text) . str_repeat("x", 100000);
    }
}
if ($_SERVER["REQUEST_URI"] == "/report") {
    make_report();
}
echo "page";
