"""Answers a line each of what it reads: the fields in base64, the secrets with commas between them."""
import sys
from base64 import b64decode

import webhook

for line in sys.stdin:
    which, secrets, *fields, body = [[b64decode(part) for part in field.split(",")] for field in line.rstrip("\n").split("\t")]
    verify = {b"sender": webhook.verify_sender, b"standard": webhook.verify_standard}[which[0]]
    texts = [field[0].decode() for field in fields]
    print(str(verify([secret.decode() for secret in secrets], *texts, body[0])).lower())
