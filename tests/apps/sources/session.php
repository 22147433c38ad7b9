<?php
// A page that counts its visits; a slow one asks a service far away.
session_start();
$_SESSION["visits"] = ($_SESSION["visits"] ?? 0) + 1;
if (isset($_GET["slow"])) {
    usleep(1200000);
}
echo $_SESSION["visits"];
