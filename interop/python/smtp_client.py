"""Delivers mail as a program would that knows nothing of sidecars: `python smtp_client.py PORT`. It fails with the first
difference."""

import smtplib
import sys

with smtplib.SMTP("127.0.0.1", int(sys.argv[1]), timeout=20) as mail:
    mail.ehlo("client.test")
    for size in (10, 100_000, 5_000_000):
        text = ("line of mail\r\n" * (size // 14 + 1)).encode()
        refused = mail.sendmail("a@client.test", ["b@mail.test", "c@mail.test"], text)
        code, kept = mail.docmd("XLAST")
        # The line that ends a message is three bytes.
        if refused or code != 250 or int(kept) != len(text) + 3:
            sys.exit(f"{len(text)} bytes sent, {kept} kept, {refused} refused")
