"""Receives the callbacks of batches, and accepts only correctly signed ones.

    CALLBACK_SECRET=… python3 examples/callbackreceiver/receiver.py 9000

Deliveries are signed as Standard Webhooks has it (https://www.standardwebhooks.com).
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import sys
import time

TOLERANCE = 5 * 60  # seconds: an old delivery may be a replay
MAX_BODY = 1 << 20

seen = set()  # a database, where there are several receivers


def key_of(secret):
    """Returns the key of a secret."""
    if secret.startswith("whsec_"):
        return base64.b64decode(secret[len("whsec_"):])
    return secret.encode()


def problem(key, headers, body, now):
    """Returns the reason to reject a delivery, or an empty text."""
    delivery, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent.isdigit() or abs(now - int(sent)) > TOLERANCE:
        return "its time is not about now"
    signed = f"{delivery}.{sent}.".encode() + body
    want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    # During a change of the secret there may be several signatures.
    if not any(hmac.compare_digest(want, got) for got in headers.get("webhook-signature", "").split()):
        return "it is not signed with this secret"
    return ""


class Receiver(http.server.BaseHTTPRequestHandler):
    key = b""

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        if size > MAX_BODY:
            return self.answer(413)
        body = self.rfile.read(size)
        if why := problem(self.key, self.headers, body, time.time()):
            print("refused:", why, flush=True)
            return self.answer(401)
        # A delivery comes again, with the same id, if our answer was lost.
        delivery = self.headers["webhook-id"]
        if delivery not in seen:
            seen.add(delivery)
            batch = json.loads(body)["batch"]
            print("done:", batch["name"], json.dumps(batch["outcomes"], sort_keys=True), flush=True)
        self.answer(204)  # 2xx ends it; anything else is tried again, for a day

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.environ.get("CALLBACK_SECRET"):
        sys.exit(__doc__)
    Receiver.key = key_of(os.environ["CALLBACK_SECRET"])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
