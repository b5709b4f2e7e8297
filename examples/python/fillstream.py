"""The Python client for Fillstream: one file that needs only the standard library of Python 3.9 or newer.

    from fillstream import Fillstream

    client = Fillstream()     # FILLSTREAM_URL and FILLSTREAM_KEY; or Fillstream(url, key)
    print(client.get("/v2/traders/0x…")["profile"]["name"])
    for trader in client.pages("/v2/analytics/leaderboard", time_frame="7D"):
        print(trader["rank"], trader["total_pnl"])

    feed = client.feed(traders=["0x…"], after=saved_cursor)
    for event in feed:
        handle(event)         # event.type: order, final, void, restored or gap; it decides the type of event.data
        save(feed.cursor)     # after a restart, pass it as `after`

Amounts are micro-USDC and micro-shares. From a shell, with the same variables:

    python3 fillstream.py tags=crypto min_usdc=1000
"""
from __future__ import annotations

import json
import os
import random
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, Dict, Generic, Iterator, List, Literal, Optional, Tuple, TypedDict, TypeVar, Union

# The server sends a heartbeat every 30 seconds, so a connection that is silent for much longer is dead.
SILENCE_SECONDS = 75.0
WAIT_SECONDS_MAX = 30.0
# How long the server may count a connection that was lost as an open session. If the network has vanished, the server's
# operating system notices only after a quarter of an hour.
GHOST_SECONDS_MAX = 1_000.0
# After these reasons, reconnecting would fail in the same way.
FINAL_REASONS = {"key_revoked", "stream_deleted", "stream_disabled", "quota_used_up", "fault"}

# Others are meant for later versions of this client.
EVENT_TYPES = {"order", "tx", "position", "final", "void", "restored", "gap", "end"}
AnyEvent = TypeVar("AnyEvent", covariant=True)


class Problem(Exception):
    """An error response of the API. `retry_after` is the wait in seconds, if the server requests one, and `quota` the name
    of the quota that is used up."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        request_id: str,
        retry_after: Optional[float],
        quota: Optional[str] = None,
    ):
        super().__init__(f"{status} {code}: {detail} (request {request_id})")
        self.status, self.code, self.detail = status, code, detail
        self.request_id, self.retry_after, self.quota = request_id, retry_after, quota

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (408, 429) or self.status >= 500


class StreamEnded(Exception):
    """The server ended the stream permanently. For the reasons, see "Resuming" in the guide to event streams."""

    def __init__(self, reason: str):
        super().__init__(f"the stream was ended: {reason}")
        self.reason = reason


class Fillstream:
    """One service, by default that of FILLSTREAM_URL and FILLSTREAM_KEY. `attempts` is the maximum number of attempts per
    request while the service is unavailable."""

    def __init__(
        self, url: Optional[str] = None, key: Optional[str] = None, attempts: int = 5, timeout_seconds: float = 30.0
    ):
        self.url = (url or os.environ.get("FILLSTREAM_URL") or "http://127.0.0.1:8080").rstrip("/")
        # A key that was read from a file ends with its line.
        self.key = (os.environ.get("FILLSTREAM_KEY", "") if key is None else key).strip()
        if not re.fullmatch(r"[!-~]*", self.key):
            raise ValueError("the API key contains invalid characters")
        self.attempts, self.timeout_seconds = attempts, timeout_seconds

    def get(self, path: str, **parameters: Any) -> Any:
        """The decoded response. Raises Problem, or OSError if the service is unreachable or its response was cut."""
        return self._request(_with(path, parameters))[0]

    def post(self, path: str, body: Any) -> Any:
        """Sends `body` as JSON. A retry after a lost connection creates nothing twice."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"{random.getrandbits(128):032x}"}
        return self._request(path, json.dumps(body).encode(), headers)[0]

    def pages(self, path: str, **parameters: Any) -> Iterator[Dict[str, Any]]:
        """The elements of all pages of a list."""
        target: Optional[str] = _with(path, parameters)
        while target is not None:
            answer, link = self._request(target)
            yield from next(value for value in answer.values() if isinstance(value, list))
            found = re.search(r'<([^>]+)>;\s*rel="next"', link)
            target = found[1] if found else None

    def feed(self, after: Optional[str] = None, **filters: Any) -> Stream[FeedEvent]:
        """Matches when they are first seen, with the filters of GET /v1/stream/orders. `finality=True` adds final events."""
        return Stream(self, _with("/v1/stream/orders", {"format": "json", **filters}), after)

    def stream(self, id: str, after: Optional[str] = None, **query: Any) -> Stream[StreamEvent]:
        """A managed stream. `finality=True` adds final events, `positions=True` what matches do to positions."""
        return Stream(self, _with(f"/streams/{urllib.parse.quote(id)}", query), after)

    def _request(self, target: str, body: Optional[bytes] = None, headers: Dict[str, str] = {}) -> Tuple[Any, str]:
        """The decoded response, and its `Link`."""
        for attempt in range(1, self.attempts + 1):
            try:
                with self._open(target, self.timeout_seconds, body, headers) as response:
                    text = response.read()
                    try:
                        return json.loads(text), response.headers.get("Link", "")
                    except ValueError:
                        raise _unexpected(response, "JSON") from None
            except Problem as problem:
                if not problem.is_transient or attempt == self.attempts:
                    raise
                time.sleep(problem.retry_after or _wait_seconds(attempt))
            except (OSError, HTTPException) as error:
                if attempt == self.attempts:
                    raise error if isinstance(error, OSError) else ConnectionError(f"the response was cut: {error!r}")
                time.sleep(_wait_seconds(attempt))
        raise AssertionError("attempts must be at least 1")

    def _open(self, target: str, timeout: float, body: Optional[bytes], headers: Dict[str, str]) -> HTTPResponse:
        url = f"{self.url}/{target.lstrip('/')}"
        key = {"X-Service-Key": self.key} if self.key else {}
        request = urllib.request.Request(url, body, {**key, **headers})
        try:
            response: HTTPResponse = _OPENER.open(request, timeout=timeout)
            return response
        except urllib.error.HTTPError as error:
            with error:
                raise _problem(error) from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Following a redirect would send the key to wherever it points."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


class Stream(Generic[AnyEvent]):
    """Yields events once and in order, across disconnects and restarts of the service. Raises StreamEnded, or Problem
    for a permanent error such as a wrong key or filter. `cursor` also advances when events are filtered out."""

    def __init__(self, client: Fillstream, target: str, after: Optional[str]):
        self.cursor = after
        self._client, self._target = client, target
        self._retry_seconds = 2.0

    def __iter__(self) -> Iterator[AnyEvent]:
        failures, was_open, refused_at = 0, False, None
        while True:
            try:
                headers = {"Accept": "text/event-stream"}
                if self.cursor:
                    headers["Last-Event-ID"] = self.cursor
                with self._client._open(self._target, SILENCE_SECONDS, None, headers) as response:
                    if response.headers.get_content_type() != "text/event-stream":
                        raise _unexpected(response, "an event stream")
                    failures, was_open, refused_at = 0, True, None
                    yield from self._events(response)
            except Problem as problem:
                # Until the server notices, it counts our lost connection as an open session.
                is_own_ghost = was_open and problem.code == "quota_exceeded" and problem.quota != "stream_seconds_per_day"
                if is_own_ghost:
                    refused_at = refused_at or time.monotonic()
                    is_own_ghost = time.monotonic() - refused_at < GHOST_SECONDS_MAX
                if not problem.is_transient and not is_own_ghost:
                    raise
                failures += 1
                if problem.retry_after is not None:
                    time.sleep(problem.retry_after)
                    continue
            except (OSError, HTTPException):
                failures += 1
            time.sleep(_wait_seconds(failures, self._retry_seconds))

    def _events(self, response: HTTPResponse) -> Iterator[AnyEvent]:
        kind, cursor, data = "message", self.cursor, []
        for line in _lines(response):
            name, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            elif name == "id" and "\0" not in value:
                cursor = value
            elif name == "retry" and re.fullmatch("[0-9]+", value):
                self._retry_seconds = int(value) / 1000
            elif line == "":
                # An incomplete event at the end of a lost connection never gets here.
                self.cursor = cursor
                if data and kind in EVENT_TYPES:
                    event: Any = Event(kind, cursor, json.loads("\n".join(data)))
                    if kind == "end":
                        if event.data["reason"] in FINAL_REASONS:
                            raise StreamEnded(event.data["reason"])
                        return
                    yield event
                kind, data = "message", []


def _lines(response: HTTPResponse) -> Iterator[str]:
    """The complete lines of an event stream, each as soon as it ends: with CR LF, LF or CR."""
    rest, is_after_cr, is_first = b"", False, True
    while True:
        chunk = response.read1(65_536)
        if not chunk:
            return
        if is_after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]  # It belongs to that CR.
        is_after_cr = chunk.endswith(b"\r")
        *lines, rest = re.split(b"\r\n|\n|\r", rest + chunk)
        for line in lines:
            text = line.decode("utf-8", "replace")
            yield text[1:] if is_first and text.startswith("\ufeff") else text
            is_first = False


def _with(path: str, parameters: Dict[str, Any]) -> str:
    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        return ",".join(value) if isinstance(value, (list, tuple)) else str(value)

    given = {name: text(value) for name, value in parameters.items() if value is not None}
    return f"{path}?{urllib.parse.urlencode(given)}" if given else path


def _problem(error: urllib.error.HTTPError) -> Problem:
    try:
        body = json.load(error)
    except ValueError:
        body = {}
    after = error.headers.get("Retry-After", "")
    request_id = error.headers.get("X-Request-Id", "")
    code, detail, quota = body.get("error", "unknown"), body.get("detail", error.reason), body.get("quota", {}).get("name")
    return Problem(error.code, code, detail, request_id, float(after) if after.isdigit() else None, quota)


def _unexpected(response: HTTPResponse, expected: str) -> Problem:
    """Something between here and the service answered with status 200, or the URL is that of another one."""
    detail = f"the response is {response.headers.get_content_type()}, not {expected}"
    return Problem(response.status, "unexpected", detail, response.headers.get("X-Request-Id", ""), None)


def _wait_seconds(failures: int, least: float = 0.5) -> float:
    """Doubles after each failure, with jitter so that clients do not retry at the same time."""
    return random.uniform(0.5, 1.0) * min(WAIT_SECONDS_MAX, least * 2.0 ** min(failures, 10))


# The shapes of events. A test compares them with the OpenAPI document.


class Trader(TypedDict):
    address: str
    name: str
    x_username: str
    profile_image: str
    profile_created_at: str


class Order(TypedDict):
    side: Literal["BUY", "SELL"]
    usdc: str  # micro-USDC
    shares: str  # micro-shares
    trader: Trader
    outcome: str
    fee: str  # micro-USDC
    token_id: str
    fee_rate_bps: str


class Market(TypedDict):
    id: str  # "0" while it is unknown
    condition_id: str
    question: str
    slug: str
    start_date: str
    end_date: str
    icon: str
    neg_risk: bool
    event_slug: str
    series_slug: str
    tags: List[str]
    outcome_1: str
    outcome_2: str
    group_item_title: str
    event_title: str
    event_icon: str
    resolved_at: str  # "" while the market is unresolved
    winning_outcome: str


class Match(TypedDict):
    """What the feed yields. `match_id` joins it with its final, void or restored."""

    tx_hash: str
    match_id: str
    timestamp: str
    market: Market
    taker_order: Order
    maker_orders: List[Order]


class User(TypedDict):
    address: str
    name: str


class SignedOrder(TypedDict):
    order_hash: str
    shares: str  # all that was offered, micro-shares; "0" if it could not be read
    signature_type: int
    timestamp: str
    usdc: str


class Fill(TypedDict):
    fee: str  # micro-USDC
    order: SignedOrder
    outcome: str
    shares: str  # micro-shares
    side: Literal["BUY", "SELL"]
    token_ids_index: Literal[0, 1]
    usdc: str  # micro-USDC
    user: User

class LiveMarket(TypedDict):
    condition_id: str
    event_slug: str
    group_item_title: str
    id: int  # 0 while it is unknown
    neg_risk: bool
    outcomes: Tuple[str, str]
    question: str
    series_slug: str
    slug: str
    sports_market_type: str
    start_date: str
    tags_slug: List[str]
    token_ids: Tuple[str, str]


class Transaction(TypedDict):
    """What a managed stream yields."""

    makers: List[Fill]
    market: LiveMarket
    match_id: str
    taker: Fill
    timestamp: str
    tx_hash: str


class PositionMarket(TypedDict):
    condition_id: str
    event_slug: str
    id: str  # "0" while it is unknown
    outcomes: Tuple[str, str]
    question: str
    slug: str


class PositionTrader(TypedDict):
    address: str
    name: str


class Position(TypedDict):
    """What the next match does to a position. It may come again with its match."""

    event: Literal["opened", "added", "reduced", "closed"]
    market: PositionMarket
    match_id: str
    outcome: str
    portfolio_share: float  # percent
    portfolio_value: str  # micro-USDC
    price: str  # micro-USDC a share
    shares_after: str  # micro-shares
    shares_before: str  # micro-shares
    state: Literal["pending", "final"]
    timestamp: str
    token_ids_index: Literal[0, 1]
    trader: PositionTrader
    tx_hash: str
    value: str  # micro-USDC
    value_after: str  # micro-USDC


class Final(TypedDict):
    tx_hash: str
    match_id: str
    timestamp: str
    block_number: int


class Void(TypedDict):
    """The match did not settle. After never_mined, it may still be restored."""

    tx_hash: str
    match_id: str
    timestamp: str
    reason: Literal["reverted", "replaced", "never_mined", "unmatched"]


class Restored(TypedDict):
    tx_hash: str
    match_id: str
    timestamp: str


class Gap(TypedDict):
    """The events between these cursors are lost."""

    requested: int
    first_available: int


Type = TypeVar("Type")
Data = TypeVar("Data")


@dataclass(frozen=True)
class Event(Generic[Type, Data]):
    type: Type
    cursor: Optional[str]
    data: Data


Sequel = Union[
    Event[Literal["final"], Final],
    Event[Literal["void"], Void],
    Event[Literal["restored"], Restored],
    Event[Literal["gap"], Gap],
]
FeedEvent = Union[Event[Literal["order"], Match], Sequel]
StreamEvent = Union[Event[Literal["tx"], Transaction], Event[Literal["position"], Position], Sequel]


if __name__ == "__main__":
    if not all("=" in argument for argument in sys.argv[1:]):
        sys.exit("usage: FILLSTREAM_URL=… FILLSTREAM_KEY=… python3 fillstream.py [filter=value …]")
    try:
        for one in Fillstream().feed(**dict(argument.split("=", 1) for argument in sys.argv[1:])):
            print(json.dumps({"type": one.type, "cursor": one.cursor, "data": one.data}), flush=True)
    except (Problem, StreamEnded) as error:
        sys.exit(str(error))
    except BrokenPipeError:
        # The reader has closed the pipe, like `| head`. Without this, Python would report the error again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        pass
