<?php
// Counts the stock once, when a line is on standard input, and has the ledger locked meanwhile.
function count_stock(float $seconds): int
{
    for ($end = microtime(true) + $seconds, $count = 0; microtime(true) < $end; ) {
        $count += crc32(str_repeat("shelf $count", 100)) % 7;
    }
    return $count;
}

printf('{"pid": %1$d, "tid": %1$d}' . "\n", getmypid());
fgets(STDIN);
$ledger = fopen($argv[1], "a");
flock($ledger, LOCK_EX);
echo "{}\n";
count_stock((float) $argv[2]);
fwrite($ledger, "stock\n");
fclose($ledger);
sleep(60);
