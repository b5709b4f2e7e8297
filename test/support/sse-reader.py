"""Reads an event stream as Python programs do: urllib and lines, nothing but the standard library.

python3 sse-reader.py URL KEY: prints each event as one JSON line, comes back with Last-Event-ID after
the time that `retry` names, and ends with the status of an answer that is final.
"""
import json
import sys
import time
import urllib.error
import urllib.request

url, key = sys.argv[1:3]
last_event_id = None
retry_ms = 3000


def say(value):
    print(json.dumps(value), flush=True)


def read(response):
    global last_event_id, retry_ms
    event, data, cursor = "message", [], last_event_id
    for raw in response:
        if not raw.endswith(b"\n"):
            return  # The connection was cut within a line.
        line = raw.decode("utf-8").rstrip("\n")
        if line == "":
            # An event that was cut before its end is sent again.
            last_event_id = cursor
            if data:
                say({"id": last_event_id, "event": event, "data": json.loads("\n".join(data))})
            event, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "id":
            cursor = value
        elif field == "event":
            event = value
        elif field == "data":
            data.append(value)
        elif field == "retry":
            retry_ms = int(value)


while True:
    headers = {"X-Service-Key": key, "Accept": "text/event-stream"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
            say({"status": response.status})
            read(response)
    except urllib.error.HTTPError as error:
        if 400 <= error.code < 500 and error.code != 429:
            say({"status": error.code})
            break
    except OSError:
        pass
    time.sleep(retry_ms / 1000)
