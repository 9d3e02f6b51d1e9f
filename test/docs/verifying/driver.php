<?php
// Answers a line each of what it reads: the fields in base64, the secrets with commas between them.
require __DIR__ . '/webhook.php';

while (($line = fgets(STDIN)) !== false) {
    [$which, $secrets, $texts] = explode("\t", rtrim($line, "\n"), 3);
    $verify = 'verify_' . base64_decode($which);
    $fields = array_map('base64_decode', explode("\t", $texts));
    echo $verify(array_map('base64_decode', explode(',', $secrets)), ...$fields) ? "true\n" : "false\n";
}
